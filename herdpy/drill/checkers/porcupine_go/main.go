// Judges registers with Porcupine. Each line of standard input is one register, as JSON:
//
//	{"key": "x", "steps": [[kind, expected, value, call, return], ...]}
//
// and each line of standard output its verdict: {"key": "x", "result": "Ok" | "Illegal" | "Unknown"}.
// Kinds, and the numbers that stand for values, are those of registers.py; calls and returns are distinct
// places in one order. A step that may never take effect returns after everything else.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	read = iota
	write
	swap
	differs
)

type register struct {
	Key   string     `json:"key"`
	Steps [][5]int64 `json:"steps"`
}

type verdict struct {
	Key    string                `json:"key"`
	Result porcupine.CheckResult `json:"result"`
}

type step struct{ kind, expected, value int64 }

var model = porcupine.Model{
	Init: func() interface{} { return int64(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		now, does, mayNeverBe := state.(int64), input.(step), output.(bool)
		switch does.kind {
		case read:
			return now == does.expected, now
		case write:
			return true, does.value
		case swap:
			if now == does.expected {
				return true, does.value
			}
			return mayNeverBe, now
		case differs:
			return now != does.expected, now
		}
		panic(fmt.Sprintf("no kind %d", does.kind))
	},
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "for all registers together")
	flag.Parse()
	end := time.Now().Add(*timeout)
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for in.More() {
		var one register
		if err := in.Decode(&one); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if err := out.Encode(verdict{one.Key, judge(one, max(time.Until(end), time.Millisecond))}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}

func judge(one register, timeout time.Duration) porcupine.CheckResult {
	last := int64(2 * len(one.Steps))
	operations := make([]porcupine.Operation, 0, len(one.Steps))
	for client, each := range one.Steps {
		mayNeverBe := each[4] >= last
		operations = append(operations, porcupine.Operation{
			ClientId: client,
			Input:    step{each[0], each[1], each[2]},
			Call:     each[3],
			Output:   mayNeverBe,
			Return:   each[4],
		})
	}
	return porcupine.CheckOperationsTimeout(model, operations, timeout)
}
