package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// schema is the part of a JSON schema that the charts use.
type schema struct {
	Description string     `json:"description"`
	Types       typeNames  `json:"type"`
	Properties  properties `json:"properties"`
	// Patterns describe keys that begin with the text after the "^", or that are refused by a text of the templates
	// ("^…$").
	Patterns    properties        `json:"patternProperties"`
	Definitions map[string]schema `json:"definitions"`
	// AllOf has a single reference to a definition: in draft-07, a description beside a bare $ref is ignored.
	AllOf []struct {
		Ref string `json:"$ref"`
	} `json:"allOf"`
}

// typeNames are the types that a value may have, except for null, which every value may be.
type typeNames []string

// UnmarshalJSON accepts a name or a list of names.
func (t *typeNames) UnmarshalJSON(data []byte) error {
	var names []string
	if data[0] == '"' {
		names = make([]string, 1)
		if err := json.Unmarshal(data, &names[0]); err != nil {
			return err
		}
	} else if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	for _, name := range names {
		if name != "null" {
			*t = append(*t, name)
		}
	}
	return nil
}

// property is a key with its schema.
type property struct {
	key    string
	schema schema
}

// properties keep the order of the file.
type properties []property

// UnmarshalJSON reads an object.
func (p *properties) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil { // the opening brace
		return err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		read := property{key: fmt.Sprint(key)}
		if err := decoder.Decode(&read.schema); err != nil {
			return fmt.Errorf("%s: %w", read.key, err)
		}
		*p = append(*p, read)
	}
	return nil
}

// definition returns the name of the definition to which the schema refers, empty if there is none.
func (s schema) definition() string {
	if len(s.AllOf) == 0 {
		return ""
	}
	return strings.TrimPrefix(s.AllOf[0].Ref, "#/definitions/")
}

// row is one line of the reference.
type row struct {
	path, kind, description string
}

// flattener turns a schema into rows. A definition is spelled out where it first occurs; later rows refer to that.
type flattener struct {
	definitions map[string]schema
	spelledOut  map[string]string
}

// rows returns the rows of the value at the path and of everything below it. It fails if one has no description.
func (f flattener) rows(path string, s schema) ([]row, error) {
	if s.Description == "" {
		return nil, fmt.Errorf("values.schema.json doesn't describe %s", path)
	}
	description, kind, below := s.Description, strings.Join(s.Types, " or "), s.Properties
	if name := s.definition(); name != "" {
		definition := f.definitions[name]
		kind = strings.Join(definition.Types, " or ")
		switch first := f.spelledOut[name]; {
		case first == "" || len(definition.Properties) == 0:
			f.spelledOut[name] = path
			below = definition.Properties
		default:
			description += " Keys as in `" + first + "`."
		}
	}
	if kind == "" {
		kind = "any"
	}
	result := []row{{path: path, kind: kind, description: description}}
	for _, property := range below {
		more, err := f.rows(path+"."+property.key, property.schema)
		if err != nil {
			return nil, err
		}
		result = append(result, more...)
	}
	return result, nil
}
