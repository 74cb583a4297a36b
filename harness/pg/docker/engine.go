package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	// askTimeout bounds a question to the daemon, which may hang.
	askTimeout = 10 * time.Second
	// pullTimeout bounds the download of an image.
	pullTimeout = 10 * time.Minute
)

// UnavailableError says that no container can be run, and what mends it.
type UnavailableError struct {
	Reason string
	Mend   string
	Err    error // the cause in the client's words; may be nil
}

func (e *UnavailableError) Error() string {
	text := e.Reason
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text + ": " + e.Mend
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// PullError says that an image is not here and cannot be had.
type PullError struct {
	Image string
	Err   error
}

func (e *PullError) Error() string {
	return fmt.Sprintf("pull image %s: %v: pull it where there is a network, or name one that is here with --postgres-image", e.Image, e.Err)
}

// Unwrap returns the cause.
func (e *PullError) Unwrap() error { return e.Err }

// connect returns a client of a daemon that answers. The caller closes it.
func connect(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	settle(ctx)
	c, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if _, err := c.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, unavailable(ctx, errors.Join(err, c.Close()))
	}
	return c.Client, nil
}

// unavailable says why there is no daemon. testcontainers looks in many places,
// and tells of the last one; the first counts: that of DOCKER_HOST, or the usual
// socket.
func unavailable(ctx context.Context, err error) error {
	var dialer net.Dialer
	host := cmp.Or(os.Getenv("DOCKER_HOST"), client.DefaultDockerHost)
	if socket, local := strings.CutPrefix(host, "unix://"); local {
		conn, dialErr := dialer.DialContext(ctx, "unix", socket)
		if err = cmp.Or(dialErr, err); dialErr == nil {
			_ = conn.Close() // it was opened, which was the question
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return &UnavailableError{
			Reason: "the Docker daemon refuses this user", Err: err,
			Mend: "add the user to the group docker (usermod -aG docker USER) and log in again, or run as root",
		}
	}
	return &UnavailableError{
		Reason: "no Docker daemon answers", Err: err,
		Mend: "install and start Docker (systemctl start docker), or set DOCKER_HOST",
	}
}

// the environment variables of testcontainers, which reads them once per process
const (
	reaperVariable = "TESTCONTAINERS_RYUK_DISABLED"
	hostVariable   = "TESTCONTAINERS_HOST_OVERRIDE"
)

// settled is once per process, as what it settles is: testcontainers keeps its
// configuration for the life of the process.
var settled sync.Once

// settle tells testcontainers what it would ask of the user. Its reaper needs an
// image of its own, and is done without where that is not at hand, since our
// containers end with us anyway. In a container it takes the daemon for the
// host's, and looks for ports at the gateway; ours are on loopback.
func settle(ctx context.Context) {
	settled.Do(func() {
		tclog.SetDefault(tclog.NewNoopLogger()) // it would greet on standard error
		for name, value := range map[string]string{reaperVariable: noReaper(ctx), hostVariable: loopback} {
			if _, set := os.LookupEnv(name); set || value == "" {
				continue
			}
			_ = os.Setenv(name, value)               // no name or value of ours is invalid
			defer func() { _ = os.Unsetenv(name) }() // not for our children
		}
		testcontainers.ReadConfig()
	})
}

// noReaper returns "true" unless the reaper's image is here.
func noReaper(ctx context.Context) string {
	c, err := client.New(client.FromEnv)
	if err != nil {
		return "true"
	}
	defer func() { _ = c.Close() }()
	//lint:ignore SA1019 no other name for the image is exported
	if _, err := c.ImageInspect(ctx, testcontainers.ReaperDefaultImage); err != nil {
		return "true"
	}
	return ""
}

// present reports whether an image is here.
func present(ctx context.Context, c *client.Client, image string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := c.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for image %s: %w", image, err)
	}
	return true, nil
}

// pull gets an image unless it is here. testcontainers would try without end.
func pull(ctx context.Context, c *client.Client, image string, progress func(string)) error {
	here, err := present(ctx, c, image)
	if err != nil || here {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	progress("pulling image " + image)
	response, err := c.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return &PullError{Image: image, Err: err}
	}
	if err := errors.Join(response.Wait(ctx), response.Close()); err != nil {
		return &PullError{Image: image, Err: err}
	}
	return nil
}
