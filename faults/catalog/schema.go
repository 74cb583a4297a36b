package catalog

import (
	"reflect"
	"strings"

	"deadwire/faults"
)

// Schema returns the JSON Schema of one entry of a scenario's `faults:` list:
// exactly one fault by name, and optionally `when`.
func Schema() map[string]any {
	properties := map[string]any{"when": object(reflect.TypeOf(faults.Trigger{}))}
	for _, f := range All() {
		properties[f.Name()] = object(reflect.TypeOf(f))
	}
	return map[string]any{
		"type":                 "object",
		"description":          "one fault by name with its parameters, and when it is injected (default: before the subject starts, or at once)",
		"properties":           properties,
		"additionalProperties": false,
		"minProperties":        1,
		"maxProperties":        2,
	}
}

// object describes a struct by its json, enum and doc tags.
func object(t reflect.Type) map[string]any {
	properties := map[string]any{}
	var required []any
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		properties[name] = property(field)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func property(field reflect.StructField) map[string]any {
	t := field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var schema map[string]any
	switch t.Kind() {
	case reflect.Struct:
		schema = object(t)
	case reflect.Int:
		schema = map[string]any{"type": "integer", "minimum": 0}
	case reflect.Bool:
		schema = map[string]any{"type": "boolean"}
	default:
		schema = map[string]any{"type": "string"}
	}
	if values := field.Tag.Get("enum"); values != "" {
		var enum []any
		for v := range strings.SplitSeq(values, ",") {
			enum = append(enum, v)
		}
		schema["enum"] = enum
	}
	if doc := field.Tag.Get("doc"); doc != "" {
		schema["description"] = doc
	}
	return schema
}

// Parameters returns the names of a fault's parameters; optional ones in brackets.
func Parameters(f faults.Fault) []string {
	var names []string
	t := reflect.TypeOf(f)
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if strings.Contains(options, "omit") {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return names
}
