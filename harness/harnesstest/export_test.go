package harnesstest

import "time"

// SetSettleMax sets how long sessions may take to end, and returns what takes it back.
func SetSettleMax(bound time.Duration) (restore func()) {
	before := settleMax
	settleMax = bound
	return func() { settleMax = before }
}
