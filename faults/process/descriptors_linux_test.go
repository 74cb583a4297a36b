package process

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestTheLimitLeavesExactlyWhatIsToSpare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		open  []int
		spare int
		want  uint64
	}{
		"none to spare":                   {[]int{0, 1, 2}, 0, 3},
		"a hole counts as free":           {[]int{0, 1, 2, 5}, 0, 3},
		"one to spare, in the hole":       {[]int{0, 1, 2, 5}, 1, 4},
		"three to spare, beyond the last": {[]int{0, 1, 2, 5}, 3, 7},
		"nothing is open":                 {nil, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, firstAbove(test.open, test.spare), test.want)
		})
	}
}
