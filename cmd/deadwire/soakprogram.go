package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/pflag"

	"deadwire/scenarios/soak"
)

// registerProgram adds the flags that judge a program of the user's own.
func (f *soakFlags) registerProgram(flags *pflag.FlagSet) {
	flags.StringVar(&f.checkFile, "check", "", "with -- CMD: `FILE` of SQL that must return no rows in the end")
	flags.StringVar(&f.program.Expect, "expect", "", "with -- CMD: `REGEXP` that a line of its output must match in the end")
	flags.StringVar(&f.program.Forbid, "forbid", "", "with -- CMD: `REGEXP` that no line of its output may match")
}

// checkProgram takes the program to soak out of the flags and the policy; flags
// win.
func (f *soakFlags) checkProgram(policy *soak.Policy) error {
	p := f.program
	if f.checkFile != "" {
		text, err := os.ReadFile(f.checkFile)
		if err != nil {
			return fmt.Errorf("--check: %w", err)
		}
		p.Check = string(text)
	}
	if held := policy.Program; held != nil {
		if len(p.Command) == 0 {
			p.Command = held.Command
		}
		p.Check, p.Expect, p.Forbid = cmp.Or(p.Check, held.Check), cmp.Or(p.Expect, held.Expect), cmp.Or(p.Forbid, held.Forbid)
	}
	if len(p.Command) == 0 {
		if p.Check+p.Expect+p.Forbid != "" {
			return errors.New("--check, --expect and --forbid judge a program of yours: name it behind --")
		}
		return nil
	}
	if f.subject != "" {
		return errors.New("--subject takes the place of conveyor, and the program behind -- too: leave one out")
	}
	path, err := exec.LookPath(p.Command[0])
	if err != nil {
		return fmt.Errorf("the program to soak: %w", err)
	}
	p.Command = append([]string{absolute(path)}, p.Command[1:]...)
	policy.Program = &p
	return policy.Check()
}
