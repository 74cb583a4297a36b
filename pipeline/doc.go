// Package pipeline is conveyor, assembled: it opens the coordinator's session, joins
// dispatch to the fetcher and to the worker processes, and imports and inspects
// the catalogue. It does not parse flags and ends no process (package command and
// its mains do). The database is authoritative about what was done; nothing is
// remembered elsewhere.
//
// # Incidents
//
// What went wrong in the system that conveyor follows, by the numbers of its history,
// and why it cannot here, or which test or scenario would see it.
//
//   - 1 guarded: scenario inherited-terminate,
//     TestTerminateOnTheInheritedSessionEndsTheCoordinators; sockets are close-on-exec
//     (TestSocketIsCloseOnExecAndNonBlocking)
//   - 2 guarded: scenario parent-closes-before-pool, TestSessionClosedByItsOwnerLeavesTheRowRunning
//   - 3 guarded: TestKilledWorkerFailsTheBatchByNameAndResumeConverges runs real processes, and asks
//     the coordinator's session afterwards
//   - 4 cannot happen: the program does not know whether a test runs it; a worker is always a
//     process
//   - 5 guarded: TestAllKeepsSubmissionOrderWithinItsBounds, TestSourceTroubleLeavesWorkAndSaysSo
//   - 6 guarded: TestRunStopsAtTheFirstErrorAndDrains; a fetch's error travels as its result
//   - 7 guarded: TestConsumerThatStopsEndsEverything, TestFailingJobFailsTheBatchButNoWorker
//   - 8 guarded: TestThousandJobsInSubmissionOrderWithinTheBound; one pool and one session per
//     worker for the life of the stream
//   - 9 cannot happen: a session belongs to a process, and fetching has none
//   - 10 guarded: TestSessionIsNamedAndWatchedByTheServer
//   - 11 cannot happen: no manager process; the exit code follows from the summary (TestExitCodes)
//   - 12 guarded: TestSourcesThatMisbehave, TestFrozenWorkerIsKilledAfterTheJobTimeout
//   - 13 guarded: TestEngineThatMisbehavesIsContained; the OCR engine is a process of its own
//   - 14 cannot happen: workers are executed, not forked; the rate session is opened where it is used
//   - 15 guarded: TestReaderWhoLeftDoesNotDemoteTheRun, TestCompletedNeverBecomesFailed
//   - 16 guarded: TestFailKeepsCreationCountersAndGivesAReason
//   - 17 guarded: scenario coordinator-killed, TestKilledCoordinatorLeavesARunningRowAndNothingElse
//   - 18 cannot happen: each card's evidence is committed when it is computed, each batch's votes at
//     its end (TestStreamInterruptedBetweenBatchesKeepsWhatIsDone)
//   - 19 cannot happen: results go to stdout and into the ledger, nothing is kept in a container
//   - 20 guarded: TestLostSlotStopsTheBatchBeforeItVotes, TestNoSessionMeansNoPermission
//   - 21 guarded: TestSlotsAreTakenInOrderAndBounded, TestThreeProcessesShareTheWorkWhileOneIsKilled
//   - 22 guarded: TestConcurrentStreamsOverOneCatalogueWriteOneSetOfVotes,
//     TestConcurrentDispatchesWriteOneSet
//   - 23 guarded: TestNoFreeSlotIsARefusalWithoutARow; a sweep ends at the first refusal
//   - 24 guarded: TestCountOfZeroMeansOne
//   - 25 guarded: TestNoFreeSlotIsARefusalWithoutARow counts each refusal
//   - 26 cannot happen: dispatch enqueues nothing; only imports and people do
//     (TestImportAndItsJobsAreOneTransaction)
//   - 27 guarded: TestTwoMigrationsAtOnceDoNotCollide
//   - 28 guarded: TestDatabaseThatWasNeverMigratedIsToldTheMend names the mend; to migrate is its own
//     command
//   - 29 cannot happen: nothing scans at the start of another program
//   - 30 cannot happen: tests listen on ports that the kernel chose
//   - 31 guarded: TestSelectionReadsNoMoreThanItsChunk, TestOneClaimScansABoundedNumberOfCards
//   - 32 guarded: TestSelectionReadsNoMoreThanItsChunk; both cursors read by the same statement
//   - 33 guarded: TestEmptinessNeedsAWholeLapWithoutAFind
//   - 34 guarded: TestADenseBacklogIsClaimedOnlyAsFarAsItIsTaken
//   - 35 guarded: TestTwinInALaterBatchInheritsTheVerdict,
//     TestVerdictsReachEqualImagesOnceAndNoOthers
//   - 36 guarded: TestALapReturnsEveryEligibleCardOnceHoweverSmallTheClaims tells found from wrapped
//   - 37 guarded: TestSelectionReadsNoMoreThanItsChunk; every statement of Stage D is given the
//     batch's cards
//   - 38 cannot happen: no index is kept; candidates are read for the batch's names, by an index of
//     the database
//   - 39 cannot happen: what processes share is in the database
//     (TestProcessesTogetherStayUnderOneCeiling)
//   - 40 cannot happen: no statistics job; RUNNING rows of dead owners are failed at the next start
//     (TestKilledCoordinatorLeavesARunningRowAndNothingElse)
//   - 41 guarded: TestIdsAreUniqueAndBounded; ids hold microseconds
//   - 42 guarded: TestIdsAreUniqueAndBounded; the data's run id is not the row's
//   - 43 guarded: TestSplitIsIdempotent, TestAgainWritesNoVotesUnderAnyRun
//   - 44 guarded: TestNewVersionsReplaceVotesThatChangedAndKeepTheOthers
//   - 45 guarded: TestStaleEvidenceDoesNotSpread; done is a matter of versions, never of a run
//   - 46 guarded: TestNewVersionsReplaceVotesThatChangedAndKeepTheOthers,
//     TestCurrentPartsAreCarriedForward
//   - 47 guarded: TestIllustration
//   - 48 guarded: TestJoinKeyHeedsWhatSpeaksAgainst: what was not read speaks against nothing
//   - 49 guarded: TestJoinKey: an unknown set code is a skip, never a no-match vote
//   - 50 guarded: TestEveryInvariantSeesItsBreachAndNoOther (writes-attributed)
//   - 51 guarded: TestAPersonAndAgreementSettleTheGroupAndNothingElse
//   - 52 guarded: scenario compute-crash; a fault that did not bite leaves a case undetermined
//   - 53 guarded: TestGeneratedBulkDataBecomesTheGeneratedPrintings, TestSlotsThatMove
//   - 54 guarded: TestSourceTroubleLeavesWorkAndSaysSo; a request to slow down is no failure
//   - 55 guarded: TestProcessesTogetherStayUnderOneCeiling
//   - 56 guarded: TestBackOffWidensToSixteenAndDecaysAfterAHundredCleanAnswers
//   - 57 guarded: TestExitCodes, TestMemoryBarTripsBeforeABatch
//   - 58 guarded: TestGovernorRisesByOneAndFallsByHalf
//   - 59 guarded: TestGovernorRisesByOneAndFallsByHalf
//   - 60 guarded: TestMemoryBarTripsBeforeABatch; every batch takes its own sample
//   - 61 guarded: TestThousandJobsInSubmissionOrderWithinTheBound, TestBytesInFlightAreBounded
//   - 62 guarded: TestImportIsValueDiffing, TestMemoryIsFlatHoweverLongTheStream
//   - 63 cannot happen: compute is in processes, and OCR has one thread each
//     (TestEnvironmentHoldsNoSecrets shows its environment)
//   - 64 guarded: TestAllKeepsSubmissionOrderWithinItsBounds; fetches run beside the workers, bounded
//     by bytes
//   - 65 guarded: TestFirstCrossedBarIsTheOneThatTrips; the bar is a flag
//   - 66 cannot happen: fetches at a time are bounded apart from workers
//     (TestBytesInFlightAreBounded)
//   - 67 cannot happen: the batch's size is said, not guessed
//     (TestConfigIsRefusedByTheNameOfItsSetting)
//   - 68 guarded: TestFailuresChangeNothing, TestRunIsOnePassWithOneLedgerRowOverAll (exit 2 before
//     any card)
//   - 69 cannot happen: every stage of a batch is a log line, and progress is told every 25 batches
//     or five minutes
//   - 70 guarded: TestPlaceIsFreeAgainAfterACancelledWait: the wait for a turn is outside the
//     request's timeout
//   - 71 guarded: TestConcurrentDispatchesWriteOneSet, TestDryRunWritesNothing
//   - 72 guarded: TestEachCalculatorHasWhatTheEarlierLeft
//   - 73 cannot happen: no calculator counts a population from which its own votes are left out
//   - 74 cannot happen: conveyor runs behind no reverse proxy, and opens a lost session by no old
//     address
//   - 75 guarded: TestConnectionsAreReused, TestEveryStatementIsLabelledOnceAndParses
//   - 76 guarded: TestProcessesTogetherStayUnderOneCeiling: pacing is ours, not the source's
package pipeline
