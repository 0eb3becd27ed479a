// vcsim serves govmomi's vCenter simulator for hcio's tests, with what the simulator lacks.
//
// It prints one line of JSON when it is ready (port, control port, certificate, thumbprint) and
// ends when its standard input is closed, so that it never outlives the test that started it.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
)

func main() {
	hosts := flag.Int("hosts", 4, "hosts of the cluster")
	datastores := flag.Int("datastores", 2, "datastores")
	strangers := flag.Int("strangers", 2, "VMs that are not ours")
	vsan := flag.String("vsan", "", "osa or esa: the first datastore is a vSAN one")
	listen := flag.String("listen", "127.0.0.1:0", "address and port")
	user := flag.String("user", "administrator@vsphere.local", "user that may log in")
	password := flag.String("password", "it's a \"secret\" & <more>", "the user's password")
	flag.Parse()
	log.SetOutput(io.Discard)

	lab, err := newLab(*hosts, *datastores, *strangers, *vsan)
	if err != nil {
		fail(err)
	}
	defer lab.model.Remove()
	lab.service.Listen = &url.URL{User: url.UserPassword(*user, *password)}
	inner := lab.service.NewServer()
	defer inner.Close()
	lab.extend()

	certificate, pem, thumbprint, err := newCertificate()
	if err != nil {
		fail(err)
	}
	outer, err := net.Listen("tcp", *listen)
	if err != nil {
		fail(err)
	}
	lab.announce(outer.Addr().String())
	gate := newGate(withVersions(lab.service.ServeMux), lab)
	go serveTLS(outer, certificate, gate)

	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	go func() { _ = http.Serve(control, newControl(gate, lab)) }()

	ready := map[string]any{
		"port":       outer.Addr().(*net.TCPAddr).Port,
		"control":    control.Addr().(*net.TCPAddr).Port,
		"pem":        pem,
		"thumbprint": thumbprint,
		"user":       *user,
		"password":   *password,
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		fail(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func fail(err error) {
	_, _ = os.Stderr.WriteString("vcsim: " + err.Error() + "\n")
	os.Exit(1)
}
