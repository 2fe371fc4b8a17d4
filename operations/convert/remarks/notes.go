package remarks

import "github.com/harrier-ci/harrier/operations/finding"

// Notes collects what is to be said of one object while it is converted.
type Notes struct {
	// Object names it as KIND NAMESPACE/NAME.
	Object    string
	Findings  []Finding
	Converted []Conversion
}

// Advice is a step, and whose it is.
type Advice struct{ Whose, Fix string }

// Became notes that a field is a value now.
func (n *Notes) Became(field, value string) {
	n.Converted = append(n.Converted, Conversion{Field: field, Value: value})
}

// NeedsHand notes that somebody has to act because the fields have no counterpart, or can't be read.
func (n *Notes) NeedsHand(reason, message string, advice Advice, fields ...string) {
	n.add(finding.Problem, reason, message, advice, fields)
}

// NeedsLook notes what is not quite as it was, and may still be as intended.
func (n *Notes) NeedsLook(reason, message string, advice Advice, fields ...string) {
	n.add(finding.Warning, reason, message, advice, fields)
}

// NotNeeded notes fields, if there are any, that have no counterpart because there is nothing left for them to do.
func (n *Notes) NotNeeded(message string, fields ...string) {
	if len(fields) == 0 {
		return
	}
	n.add(finding.Info, "NotNeeded", message, Advice{}, fields)
}

func (n *Notes) add(severity finding.Severity, reason, message string, advice Advice, fields []string) {
	n.Findings = append(n.Findings, Finding{
		Finding: finding.Finding{Severity: severity, Object: n.Object, Reason: reason, Message: message,
			Fix: advice.Fix},
		Fields: fields, Whose: advice.Whose,
	})
}
