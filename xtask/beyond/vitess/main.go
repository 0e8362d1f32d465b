// A vtcombo whose clients prove passwords, for `cargo xtask beyond`: Vitess's own vtcombo has no such part of vtgate.
//
// Arguments: vtcombo's. The users are told by the variable VITESS_USERS, as vtgate has them in
// --mysql-auth-server-static-string.
package main

import (
	"log"
	"os"

	"vitess.io/vitess/go/cmd/vtcombo/cli"
	"vitess.io/vitess/go/mysql"
	"vitess.io/vitess/go/vt/utils"
)

func main() {
	mysql.RegisterAuthServerStaticFromParams("", os.Getenv("VITESS_USERS"), 0)
	cli.Main.SetGlobalNormalizationFunc(utils.NormalizeUnderscoresToDashes)
	if err := cli.Main.Execute(); err != nil {
		log.Fatal(err)
	}
}
