package loopback

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// MaxOrigin is the longest origin that is looked at, in bytes.
const MaxOrigin = 512

// extensionID is the length of the id of a Chrome extension: 128 bits, as
// letters a to p.
const extensionID = 32

// hostRules map a host name as browsers do. Underscores are let through, since
// names in private networks have them.
var hostRules = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.StrictDomainName(false),
	idna.BidiRule(),
	idna.CheckJoiners(true),
)

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// NormalizeOrigin returns the one spelling of a web origin, such as
// https://app.example, and whether s is an origin at all: http or https with a
// host, perhaps a port and a final slash, and nothing else; or
// chrome-extension://<id>.
func NormalizeOrigin(s string) (string, bool) {
	if len(s) > MaxOrigin || !utf8.ValidString(s) || strings.ContainsAny(s, "?#@\\") {
		return "", false
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || u.User != nil || (u.Path != "" && u.Path != "/") {
		return "", false
	}
	if u.Scheme == "chrome-extension" && isExtensionID(u.Host) {
		return "chrome-extension://" + u.Host, true
	}
	defaultPort, web := defaultPorts[u.Scheme]
	if !web {
		return "", false
	}
	host, ok := normalizeHost(u)
	if !ok {
		return "", false
	}
	port, ok := normalizePort(u)
	if !ok {
		return "", false
	}
	origin := u.Scheme + "://" + host
	if port != "" && port != defaultPort {
		origin += ":" + port
	}
	if len(origin) > MaxOrigin { // encoding a name makes it longer
		return "", false
	}
	return origin, true
}

func isExtensionID(id string) bool {
	return len(id) == extensionID && strings.Trim(id, "abcdefghijklmnop") == ""
}

// normalizeHost returns a host name in lower-case ASCII, or an address.
func normalizeHost(u *url.URL) (string, bool) {
	name := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(name)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", false
		}
		return "[" + addr.String() + "]", true
	}
	if !utf8.ValidString(name) { // %80 and the like were decoded
		return "", false
	}
	ascii, err := hostRules.ToASCII(name)
	if err != nil || ascii == "" || strings.HasPrefix(ascii, ".") || strings.Contains(ascii, "..") {
		return "", false
	}
	for _, c := range []byte(ascii) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && c != '.' && c != '-' && c != '_' {
			return "", false
		}
	}
	return ascii, true
}

// normalizePort returns a port without leading zeros; "" when there is none.
func normalizePort(u *url.URL) (string, bool) {
	text := u.Port()
	if text == "" {
		return "", !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return "", false
	}
	return strconv.FormatUint(port, 10), true
}
