// Command conveyor is the pipeline's production binary. It owns the process: its
// exit code and nothing else; every command is package command's. It contains no
// switch for any historical bug, which makes the empty seam below authoritative.
package main

import (
	"context"
	"os"

	"deadwire/pipeline/command"
)

func main() {
	os.Exit(command.Main(context.Background(), command.New(command.Options{}), os.Stderr))
}
