package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// boot is how guests behave after power-on: the tools and the address appear after Delay seconds.
//
// A guest takes the static address that its cloud-init metadata gives it; else the next of Leases,
// which stands for DHCP. First, where given, is reported before it, as link-local ones are.
type boot struct {
	Delay   float64  `json:"delay"`
	Leases  []string `json:"leases"`
	First   string   `json:"first"`
	Dead    []string `json:"dead"`
	NoTools bool     `json:"no_tools"`
}

func (l *lab) setBoot(b boot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.boot, l.leases = b, 0
}

// redirect sends a call to an object whose task fails.
func (l *lab) redirect(body []byte, fault string) []byte {
	l.mu.Lock()
	l.taskFault = fault
	l.mu.Unlock()
	return wholeThisPattern.ReplaceAll(body, []byte(`${1}`+failingKind+`${2}`+failingName+`<`))
}

// after lets a guest boot or stop when its VM was switched.
func (l *lab) after(method, ref string) {
	switch method {
	case "PowerOnVM_Task":
		go l.start(ref)
	case "PowerOffVM_Task":
		go l.stop(ref)
	}
}

func (l *lab) vm(ref string) *simulator.VirtualMachine {
	vm, _ := l.ctx.Map.Get(types.ManagedObjectReference{Type: "VirtualMachine", Value: ref}).(*simulator.VirtualMachine)
	return vm
}

func (l *lab) start(ref string) {
	l.mu.Lock()
	b := l.boot
	l.mu.Unlock()
	vm := l.vm(ref)
	if vm == nil {
		return
	}
	for i := 0; i < 500 && vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn; i++ {
		time.Sleep(2 * time.Millisecond)
	}
	for _, name := range b.Dead {
		if name == vm.Name {
			return
		}
	}
	if b.First != "" {
		l.report(vm, b.First, !b.NoTools)
	}
	time.Sleep(time.Duration(b.Delay * float64(time.Second)))
	if l.vm(ref) == nil || vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
		return
	}
	l.report(vm, l.address(vm), !b.NoTools)
}

func (l *lab) stop(ref string) {
	if vm := l.vm(ref); vm != nil {
		l.report(vm, "", false)
	}
}

func (l *lab) report(vm *simulator.VirtualMachine, address string, running bool) {
	l.ctx.WithLock(vm, func() {
		var nics []types.GuestNicInfo
		for i, nic := range vm.Guest.Net {
			nic.Connected, nic.IpAddress = running, nil
			if i == 0 && address != "" {
				nic.IpAddress = []string{address, "fe80::250:56ff:fe97:1"}
			}
			nics = append(nics, nic)
		}
		status := types.VirtualMachineToolsRunningStatusGuestToolsNotRunning
		if running {
			status = types.VirtualMachineToolsRunningStatusGuestToolsRunning
		}
		l.ctx.Update(vm, []types.PropertyChange{
			{Name: "guest.toolsRunningStatus", Val: string(status)},
			{Name: "guest.ipAddress", Val: address},
			{Name: "guest.net", Val: nics},
		})
	})
}

// address is what the guest's cloud-init would set.
func (l *lab) address(vm *simulator.VirtualMachine) string {
	if found := staticAddress(extra(vm, "guestinfo.metadata")); found != "" {
		return found
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases < len(l.boot.Leases) {
		l.leases++
		return l.boot.Leases[l.leases-1]
	}
	l.leases++
	return fmt.Sprintf("127.9.%d.%d", l.leases/250, l.leases%250+1)
}

func extra(vm *simulator.VirtualMachine, key string) string {
	for _, option := range vm.Config.ExtraConfig {
		if value := option.GetOptionValue(); value.Key == key {
			text, _ := value.Value.(string)
			return text
		}
	}
	return ""
}

func staticAddress(packed string) string {
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return ""
	}
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		return ""
	}
	var metadata struct {
		Network struct {
			Ethernets map[string]struct {
				Addresses []string `json:"addresses"`
			} `json:"ethernets"`
		} `json:"network"`
	}
	if json.Unmarshal(text, &metadata) != nil {
		return ""
	}
	for _, card := range metadata.Network.Ethernets {
		for _, address := range card.Addresses {
			return strings.SplitN(address, "/", 2)[0]
		}
	}
	return ""
}
