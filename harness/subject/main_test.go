package subject_test

import (
	"fmt"
	"os"
	"testing"

	"deadwire/harness/witness"

	"go.uber.org/goleak"
)

// roleVariable makes this test binary a program under test.
const roleVariable = "SUBJECT_TEST_ROLE"

func TestMain(m *testing.M) {
	if code, launched := witness.Main(); launched {
		os.Exit(code)
	}
	if role, found := os.LookupEnv(roleVariable); found {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

func play(role string) int {
	switch role {
	case "starter":
		return playStarter()
	default:
		fmt.Fprintln(os.Stderr, "unknown role", role)
		return 2
	}
}
