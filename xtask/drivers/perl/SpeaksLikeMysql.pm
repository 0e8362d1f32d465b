# Lets DBD::mysql's tests see the version of a library of MySQL's: some are for 4.1.3 and later, and would leave
# out what MariaDB's library, whose versions begin with 3, can do as well.

package SpeaksLikeMysql;

use strict;
use warnings;
use DBD::mysql;

use constant VERSION_TOLD => 50744;

my $fetch = \&DBD::mysql::db::FETCH;
no warnings 'redefine';
*DBD::mysql::db::FETCH = sub { $_[1] eq 'mysql_clientversion' ? VERSION_TOLD : goto &$fetch };

1;
