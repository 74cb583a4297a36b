// Package oracle judges what a run left behind: promises over a snapshot of the
// subject's database, over the journal, and over the machine. Taking the
// snapshot is its only input and output; every judgement is a pure function, so
// that a stored run can be judged again.
package oracle
