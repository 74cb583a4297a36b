package planted

// Bugs returns every bug, in the order in which they are told.
func Bugs() []Bug {
	return []Bug{inheritedTerminate, purgeBeforeSplit, cancelledLedger, wholeChunk, sharedSlot, leakedSession, resumeTwice}
}

// inheritedTerminate is done by the program's main, at the seam that every fork
// fault uses: the sources of conveyor give a worker no socket.
var inheritedTerminate = Bug{
	Name:     "inherited-terminate",
	Sentence: "a worker that meets one card in 1,200, hence in one batch of 200, sends Terminate over the socket that it inherited from the coordinator",
	Promise:  "fork.inherited-terminate",
}

var purgeBeforeSplit = Bug{
	Name:     "purge-before-split",
	Sentence: "what the cards' votes were is thrown away, and committed, before it is known what changes",
	Promise:  "votes-kept",
	edits: []edit{{
		file: "pipeline/dispatch/decide.go",
		old:  "\treturn d.session.InTx(ctx, func(tx *session.Tx) (err error) {\n",
		new: "\tif planted(\"purge-before-split\") {\n\t\tif err := d.purge(ctx, open); err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n" +
			"\treturn d.session.InTx(ctx, func(tx *session.Tx) (err error) {\n",
	}},
	added: map[string]string{"pipeline/dispatch/zz_planted_purge.go": `package dispatch

import (
	"context"

	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
)

func (d *Dispatcher) purge(ctx context.Context, cards []int64) error {
	var ids []int64
	var families []string
	for _, card := range cards {
		for _, agent := range deduce.Agents() {
			ids, families = append(ids, card), append(families, agent.Family)
		}
	}
	_, err := d.session.Exec(ctx, schema.VotesPurge, ids, families, d.cfg.Run)
	return err
}
`},
}

var cancelledLedger = Bug{
	Name:     "cancelled-ledger",
	Sentence: "the failure of a batch is written with the batch's own context, which its failure has cancelled",
	Promise:  "ledger-truthful",
	edits: []edit{{
		file: "pipeline/ledger/ledger.go",
		old:  "\tctx = context.WithoutCancel(ctx)\n\tif counters == nil {",
		new:  "\tif !planted(\"cancelled-ledger\") {\n\t\tctx = context.WithoutCancel(ctx)\n\t}\n\tif counters == nil {",
	}, {
		file: "pipeline/dispatch/dispatch.go",
		old:  "\terr = d.work(ctx, b)\n",
		new: "\tif planted(\"cancelled-ledger\") {\n\t\tworking, cancel := context.WithCancel(ctx)\n\t\terr = d.work(working, b)\n\t\tcancel()\n\t\tctx = working\n" +
			"\t} else {\n\t\terr = d.work(ctx, b)\n\t}\n",
	}},
}

var wholeChunk = Bug{
	Name:     "whole-chunk",
	Sentence: "the stream moves on behind all cards that it looked at, not behind the last one that it took",
	Promise:  "nothing-lost",
	edits: []edit{{
		file: "pipeline/dispatch/select.go",
		old:  "\t\t\tif len(batch) == d.cfg.Batch {\n",
		new:  "\t\t\tif len(batch) == d.cfg.Batch {\n\t\t\t\tif planted(\"whole-chunk\") {\n\t\t\t\t\tw.at = rows[len(rows)-1].ID\n\t\t\t\t}\n",
	}},
}

var sharedSlot = Bug{
	Name:     "shared-slot",
	Sentence: "the slot's lock is taken on the coordinator's session, whose end frees it in the middle of the work",
	Promise:  "slot-apart",
	edits: []edit{{
		file: "pipeline/dispatch/dispatch.go",
		old:  "slot.Acquire(ctx, d.cfg.Sessions, d.slots())",
		new:  "d.slotted(ctx)",
	}, {
		file: "pipeline/slot/slot.go",
		old:  "\treturn errors.Join(err, s.session.Close(ctx))\n",
		new:  "\tif planted(\"shared-slot\") {\n\t\treturn err\n\t}\n\treturn errors.Join(err, s.session.Close(ctx))\n",
	}},
	added: map[string]string{
		"pipeline/dispatch/zz_planted_slot.go": `package dispatch

import (
	"context"

	"deadwire/pipeline/slot"
)

func (d *Dispatcher) slotted(ctx context.Context) (*slot.Slot, error) {
	if planted("shared-slot") {
		return slot.On(ctx, d.session, d.slots())
	}
	return slot.Acquire(ctx, d.cfg.Sessions, d.slots())
}
`,
		"pipeline/slot/zz_planted_slot.go": `package slot

import (
	"context"

	"deadwire/pipeline/session"
)

// On takes the lock on a session that is used for other things too.
func On(ctx context.Context, shared *session.Session, count int) (*Slot, error) {
	number, err := take(ctx, shared, max(count, 1))
	if err != nil {
		return nil, err
	}
	return &Slot{session: shared, number: number}, nil
}
`,
	},
}

var leakedSession = Bug{
	Name:     "leaked-session",
	Sentence: "the session that is opened anew to record a failure is never closed",
	Promise:  "process.died",
	edits: []edit{{
		file: "pipeline/ledger/ledger.go",
		old:  "\t\treturn state, final(errors.Join(err, fresh.Close(ctx)))\n",
		new:  "\t\tif planted(\"leaked-session\") {\n\t\t\treturn state, final(err)\n\t\t}\n\t\treturn state, final(errors.Join(err, fresh.Close(ctx)))\n",
	}},
}

var resumeTwice = Bug{
	Name:     "resume-twice",
	Sentence: "a resumed run decides again every card of a run that failed, and adds its votes without looking for the ones that are there",
	Promise:  "the subject fails",
	edits: []edit{{
		file: "pipeline/dispatch/select.go",
		old:  "\treturn rows, nil\n}\n\n// Seeded ",
		new:  "\tif planted(\"resume-twice\") {\n\t\treturn rows, d.redo(ctx, rows)\n\t}\n\treturn rows, nil\n}\n\n// Seeded ",
	}, {
		file: "pipeline/decide/write.go",
		old:  "\theld, err := session.Tuples[deduce.Vote](",
		new:  "\tif planted(\"resume-twice\") {\n\t\treturn votes, nil\n\t}\n\theld, err := session.Tuples[deduce.Vote](",
	}},
	added: map[string]string{"pipeline/dispatch/zz_planted_redo.go": `package dispatch

import (
	"context"
	"slices"

	"deadwire/pipeline/session"
)

func (d *Dispatcher) redo(ctx context.Context, rows []selectedRow) error {
	voted, err := session.Column[int64](ctx, d.session, "/* conveyor:redo */ select v.card_id from card_printing_tag v "+
		"join pilot_run_ledger l on l.data_run_id = v.run_id where l.status = 'failed'")
	for i := range rows {
		rows[i].NeedsDecision = rows[i].NeedsDecision || slices.Contains(voted, rows[i].ID)
	}
	return err
}
`},
}
