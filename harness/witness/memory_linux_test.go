package witness

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestMemoryOfAChildIsReadOrItIsSaidWhyNot(t *testing.T) {
	t.Parallel()
	err := ReadsMemory()
	var unavailable *Unavailable
	assert.Assert(t, err == nil || errors.As(err, &unavailable) && unavailable.Mend != "", "%v", err)
}

func TestYamaIsNamedWhereItForbids(t *testing.T) {
	t.Parallel()
	for scope, says := range map[string]string{"": "SYS_PTRACE", "1": "SYS_PTRACE", "2": "nobody but root", "3": "until the next boot"} {
		err := unreadable(scope, os.ErrPermission)
		assert.Assert(t, strings.Contains(err.Error(), says), err.Error())
	}
}
