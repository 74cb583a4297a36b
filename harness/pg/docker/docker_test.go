package docker

import (
	"os"
	"strconv"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/pgtest"
)

// imageVariable names the image for these tests. It is set where there is a
// daemon with such an image, as .ci/run sees to.
const imageVariable = "DEADWIRE_TEST_IMAGE"

func TestMain(m *testing.M) {
	if _, asked := os.LookupEnv(askVariable); asked {
		answerParent()
		return
	}
	os.Exit(pgtest.Main(m, pgtest.Makers{Name: func(string) pg.Provider { return New(Options{Image: os.Getenv(imageVariable)}) }}))
}

// provider returns a provider of the image for tests, or skips the test.
func provider(t *testing.T) *Provider {
	t.Helper()
	image := os.Getenv(imageVariable)
	if image == "" {
		t.Skip("needs a Docker daemon and an image with PostgreSQL, named by " + imageVariable)
	}
	return New(Options{Image: image})
}

func TestProvider(t *testing.T) {
	t.Parallel()
	provider(t)
	pgtest.Exercise(t, func(t *testing.T) pg.Provider { return provider(t) }, pgtest.Contained(containersAt))
}

// containersAt returns the containers that publish a port.
func containersAt(t *testing.T, address pg.Address) []string {
	t.Helper()
	return list(t, make(client.Filters).Add("publish", strconv.Itoa(address.Port)))
}

func list(t *testing.T, filters client.Filters) []string {
	t.Helper()
	c, err := connect(t.Context())
	assert.NilError(t, err)
	defer func() { assert.Check(t, c.Close()) }()
	found, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: filters})
	assert.NilError(t, err)
	var names []string
	for _, item := range found.Items {
		names = append(names, item.Names...)
	}
	return names
}
