package tool

import (
	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// pattern is an ECMA-262 pattern whose matches are paid from the budget of the
// check that runs.
type pattern struct {
	re      *regexp2.Regexp
	program *program
}

// compilePattern is the library's way to patterns. As the specification asks,
// they are read as with the flag u, and are not anchored.
func (p *program) compilePattern(text string) (jsonschema.Regexp, error) {
	re, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		return nil, err
	}
	return &pattern{re: re, program: p}, nil
}

// MatchString reports whether some part of s matches. When the time for
// patterns is used up it does not return: see [budget.chargePattern].
func (p *pattern) MatchString(s string) bool {
	b := p.program.budget
	p.re.MatchTimeout = b.pattern // the check holds the program's lock
	start := b.now()
	matched, err := p.re.MatchString(s)
	spent := b.now().Sub(start)
	if err != nil { // only a timeout
		spent = MaxPatternTime
	}
	b.chargePattern(spent, s, p.re.String())
	return matched
}

func (p *pattern) String() string { return p.re.String() }
