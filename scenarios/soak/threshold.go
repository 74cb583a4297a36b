package soak

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadwire/faults/catalog"
)

// condition is one threshold: a number of the tally, how it compares, and with what.
type condition struct {
	text, metric, operator string
	limit                  float64
}

// Metrics returns the numbers that a threshold can be put on, with what they mean.
func Metrics() map[string]string {
	return map[string]string{
		"rounds":       "rounds that were judged",
		"failed":       "rounds that broke a promise",
		"weak":         "rounds in which no fault was seen to act",
		"lost":         "rounds that did not come to the fault-free end",
		"bites":        "faults that were seen to act",
		"kinds":        "kinds of faults that were seen to act",
		"recovery p50": "median time of the run that resumes",
		"recovery p95": "its 95th percentile",
		"recovery max": "its longest",
		"rss growth":   "growth of deadwire's own memory, last quarter against the second, in percent",

		"subject rss growth": "the same of the most memory that the subject's first process had in a round",
		"descriptors leaked": "descriptors that deadwire keeps more with each round",
		"goroutines leaked":  "goroutines, likewise",
	}
}

// MetricNames returns the names in Metrics, ordered.
func MetricNames() []string { return slices.Sorted(maps.Keys(Metrics())) }

var conditionForm = regexp.MustCompile(`^\s*([a-z][a-z0-9 ]*?)\s*(<=|>=|==|<|>)\s*([0-9.]+)\s*(ms|s|m|%)?\s*$`)

func parseCondition(text string) (condition, error) {
	m := conditionForm.FindStringSubmatch(text)
	if m == nil {
		return condition{}, fmt.Errorf("%q: want METRIC < NUMBER, with <, <=, ==, >= or >, such as %q", text, "recovery p95 < 20s")
	}
	c := condition{text: strings.TrimSpace(text), metric: m[1], operator: m[2]}
	names := MetricNames()
	if !slices.Contains(names, c.metric) {
		return c, fmt.Errorf("%q: unknown metric %q%s", text, c.metric, catalog.Suggest(c.metric, names))
	}
	number, unit := m[3], m[4]
	if want := unitOf(c.metric); unit != "" && !strings.Contains(want, unit) || unit == "" && strings.Contains(want, "s") {
		return c, fmt.Errorf("%q: %s is in %s", text, c.metric, orWord(want, "plain numbers, without a unit"))
	}
	if strings.Contains("ms s m", unit) && unit != "" {
		d, err := time.ParseDuration(number + unit)
		c.limit = d.Seconds()
		return c, err
	}
	var err error
	c.limit, err = strconv.ParseFloat(number, 64)
	return c, err
}

// unitOf returns the units that a metric may be given in; "" for none.
func unitOf(metric string) string {
	switch {
	case strings.HasPrefix(metric, "recovery"):
		return "ms, s or m"
	case strings.HasSuffix(metric, "rss growth"):
		return "%"
	default:
		return ""
	}
}

func orWord(word, otherwise string) string {
	if word == "" {
		return otherwise
	}
	return word
}

func (c condition) holds(value float64) bool {
	switch c.operator {
	case "<":
		return value < c.limit
	case "<=":
		return value <= c.limit
	case "==":
		return value == c.limit
	case ">=":
		return value >= c.limit
	default:
		return value > c.limit
	}
}
