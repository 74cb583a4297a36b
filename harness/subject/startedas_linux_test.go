package subject

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestAProgramIsKnownByTheCommandLineThatItWasStartedWith(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		announced, argv []string
		same            bool
	}{
		"the same":            {[]string{"/bin/sh", "-c", "x"}, []string{"/bin/sh", "-c", "x"}, true},
		"a script":            {[]string{"./run", "a"}, []string{"/bin/sh", "./run", "a"}, true},
		"a script, by env":    {[]string{"./run", "a"}, []string{"/usr/bin/python3", "-u", "./run", "a"}, true},
		"another program":     {[]string{"/bin/sh", "-c", "exec sleep 60"}, []string{"sleep", "60"}, false},
		"one of the same end": {[]string{"sh", "a", "b"}, []string{"cat", "b"}, false},
		"other arguments":     {[]string{"app", "a"}, []string{"app", "b"}, false},
	} {
		assert.Equal(t, startedAs(test.announced, test.argv), test.same, name)
	}
}
