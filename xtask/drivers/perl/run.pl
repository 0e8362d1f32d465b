# Runs a Perl driver's own tests against the server that SUITE_* name, and prints TAP.
#
# Arguments: the folder with the built sources, and the driver's name. The file with the server's address, which
# Makefile.PL writes for the tests, is written anew; the server's certificate is trusted. Each check of each file is a line
# with the file's name and the check's number; one more tells whether the file came to its end. Ends with 0 if all files
# were run, whatever their outcome.

use strict;
use warnings;
use FindBin;
use TAP::Parser;

my ($sources, $driver) = @ARGV;
my @options = ('-Mblib', '-I.', '-It');
push @options, "-I$FindBin::Bin", '-MSpeaksLikeMysql' if $driver eq 'mysql';
$ENV{SSL_CERT_FILE} = $ENV{SUITE_CA};
chdir $sources or die "cannot go to $sources: $!\n";
write_target("t/$driver.mtest");
$| = 1;
my $count = 0;
# In alphabetical order, as `make test` has it: the first ones prepare the database.
run_file($_) for sort glob 't/*.t';
print "1..$count\n";

sub write_target {
    my ($path) = @_;
    open my $file, '>', $path or die "cannot write $path: $!\n";
    print $file <<~"END";
        (\$::test_host, \$::test_port) = \@ENV{'SUITE_HOST', 'SUITE_PORT'};
        (\$::test_user, \$::test_password) = \@ENV{'SUITE_USER', 'SUITE_PASSWORD'};
        \$::test_db = 'test';
        \$::test_dsn = "DBI:$driver:\$::test_db:\$::test_host:\$::test_port";
        1;
        END
    close $file or die "cannot write $path: $!\n";
}

sub run_file {
    my ($path) = @_;
    my ($name) = $path =~ m{([^/]+)\z};
    my $parser = TAP::Parser->new({ exec => [$^X, @options, $path], merge => 1 });
    while (my $result = $parser->next) {
        if ($result->is_test) {
            my $what = $result->description =~ s/\A- //r;
            print "# $name: $what\n" if !$result->is_ok;
            report($result->is_ok, "$name " . $result->number, $result->has_skip);
        } else {
            print '# ', $result->as_string, "\n";
        }
    }
    my $is_whole = !$parser->parse_errors && ($parser->exit == 0 || $parser->failed);
    report($is_whole, "$name: its end", defined $parser->skip_all);
}

sub report {
    my ($good, $name, $is_skipped) = @_;
    $count++;
    print $good ? 'ok' : 'not ok', " $count - $name", $is_skipped ? ' # SKIP' : '', "\n";
}
