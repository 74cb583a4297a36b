package rundir

import "path/filepath"

const (
	repeatName = "repeat.json"
	// RepeatSchema is the schema of repeat.json.
	RepeatSchema = "deadwire.repeat/1"
)

// Repeat says how a run can be carried out again. It is written before the first
// case, so that a run that was killed can be repeated too.
type Repeat struct {
	Schema      string   `json:"schema"`
	Seed        string   `json:"seed"`
	Subject     string   `json:"subject,omitempty"`        // absolute path of the binary in place of the built-in one
	Postgres    string   `json:"postgres"`                 // as the flag said it, without a password
	Image       string   `json:"postgres_image,omitempty"` // for Docker
	AllowRemote bool     `json:"allow_remote,omitempty"`
	Cases       []Failed `json:"cases"` // all that were selected
}

// WriteRepeat keeps r in the run's folder.
func (d *Dir) WriteRepeat(r Repeat) error {
	r.Schema = RepeatSchema
	return WriteJSON(d.File(repeatName), r)
}

// ReadRepeat returns how the run in dir can be carried out again. Without that
// record the error is fs.ErrNotExist.
func ReadRepeat(dir string) (Repeat, error) {
	path := filepath.Join(dir, repeatName)
	var r Repeat
	if err := ReadJSON(path, &r); err != nil {
		return r, err
	}
	return r, CheckSchema(path, r.Schema, RepeatSchema)
}
