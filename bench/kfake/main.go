// kfake serves one broker of franz-go's kfake, in memory, until it is killed. It prints "ready HOST:PORT".
package main

import (
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready", cluster.ListenAddrs()[0])
	select {}
}
