package tap

import (
	"testing"

	"gotest.tools/v3/assert"
)

// Parameters as the drivers' sources have them; libpq, pgx and Node's pg send none
// that no other one sends.
func TestStartupParametersNameADriverOnlyWhenNoOtherSendsThem(t *testing.T) {
	t.Parallel()
	for want, sent := range map[string][]map[string]string{
		"JDBC":    {{"client_encoding": "UTF8", "DateStyle": "ISO", "TimeZone": "Etc/UTC", "extra_float_digits": "3"}},
		"lib/pq":  {{"client_encoding": "UTF8", "datestyle": "ISO, MDY", "extra_float_digits": "2"}},
		"asyncpg": {{"client_encoding": "'utf-8'"}},
		"":        {{}, {"client_encoding": "UTF8"}, {"TimeZone": "UTC"}, {"extra_float_digits": "2"}, {"DateStyle": "ISO"}},
	} {
		for _, parameters := range sent {
			var h habits
			for name, value := range parameters {
				h.add(name, value)
			}
			assert.Equal(t, h.driver(), want, "%v", parameters)
		}
	}
}
