package tool

import (
	"regexp"
	"strings"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// pattern is an ECMA-262 pattern whose matches are paid from the budget of the
// check that runs.
type pattern struct {
	text    string
	re      *regexp2.Regexp
	program *program
}

// compilePattern is the library's way to patterns. As the specification asks,
// they are read as with the flag u, and are not anchored.
func (p *program) compilePattern(text string) (jsonschema.Regexp, error) {
	re, err := regexp2.Compile(shortProperties(text), regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		return nil, err
	}
	return &pattern{text: text, re: re, program: p}, nil
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
	b.chargePattern(spent, s, p.text)
	return matched
}

func (p *pattern) String() string { return p.text }

// generalCategories are the long names that ECMA-262 knows besides the short
// ones, which alone the engine knows.
var generalCategories = map[string]string{
	"Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo",
	"Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me",
	"Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
	"Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe",
	"Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
	"Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So",
	"Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
	"Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Surrogate": "Cs", "Private_Use": "Co",
}

// escape matches one escape, so that the letter after two backslashes is not
// taken for one, and the name of a Unicode property.
var escape = regexp.MustCompile(`\\(?:[pP]\{(?:(?:General_Category|gc|Script|sc)=)?([A-Za-z_]+)\}|(?s:.))`)

// shortProperties returns a pattern with the Unicode properties named as the
// engine knows them: \p{Letter} and \p{gc=L} become \p{L}.
func shortProperties(text string) string {
	if !strings.Contains(text, `\p{`) && !strings.Contains(text, `\P{`) {
		return text
	}
	return escape.ReplaceAllStringFunc(text, func(found string) string {
		name := escape.FindStringSubmatch(found)[1]
		if name == "" {
			return found
		}
		if short, ok := generalCategories[name]; ok {
			name = short
		}
		return found[:3] + name + "}"
	})
}
