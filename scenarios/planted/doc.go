// Package planted puts known bugs back into conveyor, so that tests can see the
// soak, the oracle and the scenarios find them. It owns what each bug is: exact
// replacements in conveyor's own sources, which exist only in the build that Build
// starts (go build -overlay). The sources on disk are authoritative and hold no
// switch for any of them.
package planted
