package docker

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"deadwire/harness/pg/cluster"
)

// Kind is what a janitor knows containers by; its items are their names.
const Kind = "container"

const (
	loopback   = "127.0.0.1"
	namePrefix = "deadwire-"
	label      = "deadwire.postgres" // of every container of ours, for people
	// removeTimeout bounds the daemon's work of removing a container.
	removeTimeout = 30 * time.Second
)

//go:embed supervisor.sh
var supervisorScript string

// engine is a daemon that we talk to.
type engine struct {
	*client.Client
}

// run creates and starts a container of the image, with the port published at
// the same number on loopback, and returns the connection to its supervisor.
func (e engine) run(ctx context.Context, image, name string, port int, log *cluster.Log) (*supervisor, error) {
	var s *supervisor
	published := network.MustParsePort(strconv.Itoa(port) + "/tcp")
	_, err := testcontainers.Run(ctx, image,
		testcontainers.WithName(name),
		testcontainers.WithLogger(tclog.NewNoopLogger()),
		testcontainers.WithLabels(map[string]string{label: name}),
		testcontainers.WithExposedPorts(published.String()),
		testcontainers.WithEntrypoint("/bin/sh", "-c", supervisorScript),
		testcontainers.WithConfigModifier(func(c *container.Config) {
			c.User = "postgres"
			c.Cmd = nil
			// The daemon closes the input when the one client that is attached has
			// gone, whatever became of it.
			c.OpenStdin, c.StdinOnce, c.AttachStdin, c.AttachStdout, c.AttachStderr = true, true, true, true, true
			c.StopSignal = "SIGINT" // the supervisor heeds it at once; SIGTERM is slow in many images
		}),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.AutoRemove = true                             // with its volumes
			h.LogConfig = container.LogConfig{Type: "none"} // the log comes over our connection
			h.PortBindings = network.PortMap{published: {{HostIP: netip.MustParseAddr(loopback), HostPort: strconv.Itoa(port)}}}
		}),
		testcontainers.WithAdditionalLifecycleHooks(testcontainers.ContainerLifecycleHooks{
			PostCreates: []testcontainers.ContainerHook{func(ctx context.Context, _ testcontainers.Container) (err error) {
				s, err = e.attach(ctx, name, log)
				return err
			}},
		}),
	)
	if err == nil {
		return s, nil
	}
	err = errors.Join(fmt.Errorf("run container: %w", err), e.remove(context.WithoutCancel(ctx), name))
	if s != nil {
		err = errors.Join(err, s.close())
		<-s.ended
	}
	return nil, err
}

// attach connects to a container before it starts, so that nothing it says is missed.
func (e engine) attach(ctx context.Context, name string, log *cluster.Log) (*supervisor, error) {
	// The connection outlives the start that it is made in.
	attached, err := e.ContainerAttach(context.WithoutCancel(ctx), name, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, fmt.Errorf("attach to container: %w", err)
	}
	return newSupervisor(attached.HijackedResponse, log)
}

// remove removes a container with its volumes, and returns once it is gone. One
// that is gone already, or going, is no error.
func (e engine) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	gone := e.ContainerWait(ctx, name, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	_, err := e.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err == nil, errdefs.IsConflict(err): // a conflict: the daemon is at it
	default:
		return fmt.Errorf("remove container %s: %w", name, err)
	}
	select {
	case <-gone.Result:
		return nil
	case err := <-gone.Error:
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("remove container %s: %w", name, err)
	}
}

// newName returns a name that no other container has.
func newName() string { return namePrefix + strings.ToLower(rand.Text()[:12]) }

// Remove removes a container by a name that a lease recorded. It is repeatable;
// a name that is not one of ours is refused.
func Remove(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, namePrefix) {
		return fmt.Errorf("remove container %q: not one of deadwire's", name)
	}
	c, err := connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(engine{c}.remove(ctx, name), c.Close())
}
