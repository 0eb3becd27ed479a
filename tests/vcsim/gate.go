package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

var discard = log.New(io.Discard, "", 0)

// rule makes the skip+1-th matching call, and count-1 more, go wrong.
//
// Kinds: fault (not done, answered with a SOAP fault), hang (not done, never answered), lost (done,
// never answered), drop (not done, connection closed), status (not done, HTTP status 503),
// task (done, but its task ends in the fault) and slow (done after the delay).
type rule struct {
	Method string  `json:"method"`
	Skip   int     `json:"skip"`
	Count  int     `json:"count"`
	Kind   string  `json:"kind"`
	Fault  string  `json:"fault"`
	Delay  float64 `json:"delay"`
}

// gate stands before the simulator: it writes down every call and makes the asked ones go wrong.
type gate struct {
	next http.Handler
	lab  *lab

	mu      sync.Mutex
	calls   []string
	rules   []*rule
	expired map[string]bool
	seen    map[string]bool
	logins  int
}

func newGate(next http.Handler, lab *lab) *gate {
	return &gate{next: next, lab: lab, expired: map[string]bool{}, seen: map[string]bool{}}
}

var (
	methodPattern    = regexp.MustCompile(`<(?:\w+:)?Body[^>]*>\s*<(?:\w+:)?(\w+)`)
	thisPattern      = regexp.MustCompile(`<(?:\w+:)?_this[^>]*>([^<]+)<`)
	wholeThisPattern = regexp.MustCompile(`(<(?:\w+:)?_this[^>]*type=")[^"]+("[^>]*>)[^<]+<`)
	namePattern      = regexp.MustCompile(`<name(?: [^>]*)?>([^<]+)</name>`)
	taskPattern      = regexp.MustCompile(`<returnval[^>]*type="Task"[^>]*>([^<]+)<`)
	cookiePattern    = regexp.MustCompile(`vmware_soap_session="?([^";]+)`)
)

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !(strings.HasPrefix(r.URL.Path, "/sdk") ||
		strings.HasPrefix(r.URL.Path, "/pbm") || strings.HasPrefix(r.URL.Path, "/vsanHealth")) {
		if strings.HasPrefix(r.URL.Path, "/rest") || strings.HasPrefix(r.URL.Path, "/api") ||
			strings.HasPrefix(r.URL.Path, "/nfc") {
			g.note(r.Method + " " + strings.SplitN(r.URL.Path, "?", 2)[0])
		}
		g.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	// pyVmomi's word for a reference in an untyped place; vCenter knows both, the simulator one.
	body = bytes.ReplaceAll(body, []byte(`xsi:type="ManagedObject"`), []byte(`xsi:type="ManagedObjectReference"`))
	method := "?"
	if found := methodPattern.FindSubmatch(body); found != nil {
		method = string(found[1])
	}
	hit := g.record(method)
	if g.lost(r, body, method) {
		// As a vCenter does: a call without a session gets the cookie of a new, anonymous one.
		w.Header().Set("Set-Cookie", "vmware_soap_session=anonymous; Path=/; HttpOnly; Secure")
		g.fault(w, "NotAuthenticated", "The session is not authenticated.")
		return
	}
	if method == "Login" {
		r.Header.Del("Cookie") // a new login on an old, expired cookie
	}
	if hit != nil {
		if hit.Kind == "task" && strings.HasSuffix(method, "_Task") {
			body = g.lab.redirect(body, hit.Fault)
		} else if done := g.refuse(w, r, hit); done {
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Path = strings.TrimSuffix(r.URL.Path, "/pbm/sdk") // vCenter's own path; the simulator has /pbm
	if r.URL.Path == "" {
		r.URL.Path = "/pbm"
	}
	answer := &answer{ResponseWriter: w}
	g.next.ServeHTTP(answer, r)
	g.remember(answer.Header())
	if answer.status < 300 {
		g.after(method, body, answer.body.Bytes())
	}
	if hit != nil && hit.Kind == "lost" {
		g.hang(r)
		return
	}
	answer.send()
}

// after does what follows a call that was carried out.
func (g *gate) after(method string, body, answer []byte) {
	this := thisPattern.FindSubmatch(body)
	if this == nil {
		return
	}
	name, task := namePattern.FindSubmatch(body), taskPattern.FindSubmatch(answer)
	if method == "CloneVM_Task" && name != nil && task != nil {
		g.lab.configure(string(name[1]), string(task[1]))
	}
	g.lab.after(method, string(this[1]))
}

// answer holds a response back until it is known whether it is to be sent.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *answer) WriteHeader(status int)         { a.status = status }
func (a *answer) Write(part []byte) (int, error) { return a.body.Write(part) }
func (a *answer) send() {
	if a.status != 0 {
		a.ResponseWriter.WriteHeader(a.status)
	}
	_, _ = a.ResponseWriter.Write(a.body.Bytes())
}

func (g *gate) note(method string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, method)
}

func (g *gate) record(method string) *rule {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, method)
	for _, rule := range g.rules {
		if rule.Method != "*" && rule.Method != method {
			continue
		}
		if rule.Skip > 0 {
			rule.Skip--
			continue
		}
		if rule.Count > 0 {
			rule.Count--
			return rule
		}
	}
	return nil
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, hit *rule) bool {
	switch hit.Kind {
	case "fault", "task":
		g.fault(w, hit.Fault, "made to fail by the test")
	case "hang":
		g.hang(r)
	case "drop":
		if hijacker, ok := w.(http.Hijacker); ok {
			if connection, _, err := hijacker.Hijack(); err == nil {
				_ = connection.Close()
			}
		}
	case "status":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "slow":
		time.Sleep(time.Duration(hit.Delay * float64(time.Second)))
		return false
	default:
		return false
	}
	return true
}

// hang answers nothing until the client gives up.
func (g *gate) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(time.Minute):
	}
	panic(http.ErrAbortHandler)
}

func (g *gate) fault(w http.ResponseWriter, kind, text string) {
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" `+
		`xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><soapenv:Fault>`+
		`<faultcode>ServerFaultCode</faultcode><faultstring>%s</faultstring><detail>`+
		`<%sFault xmlns="urn:vim25" xsi:type="%s"></%sFault></detail>`+
		`</soapenv:Fault></soapenv:Body></soapenv:Envelope>`, text, kind, kind, kind)
}

func (g *gate) remember(header http.Header) {
	for _, text := range header.Values("Set-Cookie") {
		if found := cookiePattern.FindStringSubmatch(text); found != nil {
			g.mu.Lock()
			g.seen[found[1]] = true
			g.logins++
			g.mu.Unlock()
		}
	}
}

// lost says whether a call belongs to a session that was made to expire.
func (g *gate) lost(r *http.Request, body []byte, method string) bool {
	if method == "Login" || strings.HasSuffix(method, "RetrieveServiceContent") {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	cookie := r.Header.Get("Cookie")
	if strings.Contains(cookie, "=anonymous") {
		return true
	}
	for key := range g.expired {
		if strings.Contains(cookie, key) || bytes.Contains(body, []byte(key)) {
			return true
		}
	}
	return false
}

func (g *gate) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.seen {
		g.expired[key] = true
	}
}
