package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/envelope"
	"deadwire/pipeline/session"
)

// slopeMost is how much the memory of all processes together may grow, in MiB for each
// thousand cards, once the first quarter of them is done.
const slopeMost = 0.5

func growthCommand() *cobra.Command {
	var g growth
	cmd := &cobra.Command{
		Use:   "growth",
		Short: "Hold the memory of conveyor's processes against the number of cards",
		Long: `Works through many small images, all different, and samples the resident memory of the coordinator and of its
workers after each batch. Memory must not depend on how many cards were done before.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return g.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().IntVar(&g.cards, "cards", 20_000, "images")
	cmd.Flags().IntVar(&g.workers, "workers", 2, "compute processes")
	return cmd
}

type growth struct {
	cards, workers int
	samples        []sizes
}

// sizes are resident MiB after so many cards.
type sizes struct{ cards, coordinator, workers float64 }

func (g *growth) run(ctx context.Context, out io.Writer) (err error) {
	b := &Bench{Progress: io.Discard}
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer func() { err = joinStop(err, b.stop(ctx)) }()
	server, dir, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	if err := pictures(dir, g.cards); err != nil {
		return err
	}
	database := session.Config{URL: server.URL("postgres"), Timeout: 5 * time.Minute}
	if _, _, err := pipeline.Migrate(ctx, database); err != nil {
		return err
	}
	if _, err := pipeline.Import(ctx, database, dir); err != nil {
		return err
	}
	conveyor, err := pipeline.New(pipeline.Config{
		Database: database, Source: dir, Workers: g.workers, Batch: 10 * batchSize, WorkerArgs: conveyorArgs, Progress: g.sample,
	})
	if err != nil {
		return err
	}
	done, err := conveyor.Stream(ctx)
	if err != nil {
		return err
	}
	if done.Extracted != g.cards {
		return fmt.Errorf("growth: %d of %d cards were computed", done.Extracted, g.cards)
	}
	return g.verdict(out)
}

// pictures makes n images that differ in their bytes, some in what they show.
func pictures(dir string, n int) error {
	const shown = 100
	var encoded [shown][]byte
	for i := range encoded {
		picture := image.NewPaletted(image.Rect(0, 0, 63, 88), color.Palette{color.Gray{Y: 20}, color.Gray{Y: 230}})
		for at := range picture.Pix {
			picture.Pix[at] = uint8(at / (i + 2) % 2)
		}
		var b bytes.Buffer
		if err := png.Encode(&b, picture); err != nil {
			return err
		}
		encoded[i] = b.Bytes()
	}
	for i := range n { // what follows a picture's end belongs to its bytes, and to nothing that is shown
		name := filepath.Join(dir, fmt.Sprintf("Card %06d.png", i))
		if err := os.WriteFile(name, strconv.AppendInt(bytes.Clone(encoded[i%shown]), int64(i), 10), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sample is told the total after each batch.
func (g *growth) sample(total dispatch.Summary) {
	s := sizes{cards: float64(total.Cards), coordinator: mebibytes(envelope.Memory(os.Getpid()))}
	for _, pid := range children() {
		s.workers += resident(pid)
	}
	g.samples = append(g.samples, s)
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// resident is what a process has in memory, by its second field of statm, in pages.
func resident(pid string) float64 {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "statm"))
	fields := strings.Fields(string(raw))
	if err != nil || len(fields) < 2 {
		return 0 // it ended
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return mebibytes(pages * int64(os.Getpagesize()))
}

// children are our own worker processes, whichever thread started them.
func children() (pids []string) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil
	}
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended
		}
		for _, pid := range strings.Fields(string(raw)) {
			args, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			if err == nil && bytes.HasSuffix(bytes.TrimRight(args, "\x00"), []byte(strings.Join(conveyorArgs, "\x00"))) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// verdict looks at what came after the first quarter, when caches and heaps are warm.
func (g *growth) verdict(out io.Writer) error {
	warm := g.samples[len(g.samples)/4:]
	if len(warm) < 8 {
		return errors.New("growth: too few batches to see a slope")
	}
	first, last := warm[0], warm[len(warm)-1]
	coordinator, workers := slope(warm, func(s sizes) float64 { return s.coordinator }), slope(warm, func(s sizes) float64 { return s.workers })
	fmt.Fprintf(out, "coordinator %.1f MiB after %.0f cards, %.1f after %.0f: %+.3f MiB per 1,000 cards\n",
		first.coordinator, first.cards, last.coordinator, last.cards, coordinator)
	fmt.Fprintf(out, "workers     %.1f MiB after %.0f cards, %.1f after %.0f: %+.3f MiB per 1,000 cards, all %d together\n",
		first.workers, first.cards, last.workers, last.cards, workers, g.workers)
	if last.workers == 0 {
		return errors.New("growth: no worker was seen")
	}
	if coordinator+workers > slopeMost {
		return fmt.Errorf("growth: memory grows by %.2f MiB per 1,000 cards, most %.2f", coordinator+workers, slopeMost)
	}
	return nil
}

// slope is that of the line of least squares, per thousand cards.
func slope(samples []sizes, of func(sizes) float64) float64 {
	var meanX, meanY, above, below float64
	for _, s := range samples {
		meanX += s.cards / float64(len(samples))
		meanY += of(s) / float64(len(samples))
	}
	for _, s := range samples {
		above += (s.cards - meanX) * (of(s) - meanY)
		below += (s.cards - meanX) * (s.cards - meanX)
	}
	return 1000 * above / below
}
