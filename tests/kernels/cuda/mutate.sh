# How lists of planted mistakes are read and put into files. Sourced.
# shellcheck shell=bash

trim() { sed 's/^ *//; s/ *$//' <<<"$1"; }

# mutate FILE TEXT INSTEAD TARGET: writes the file with the text exchanged.
mutate() {
  FILE=$1 TEXT=$2 INSTEAD=$3 perl -0777 -e '
    my ($text, $instead) = @ENV{qw(TEXT INSTEAD)};
    open my $in, "<", $ENV{FILE} or die; local $/; my $code = <$in>;
    my $pattern = join "\\n\\s*", map quotemeta, split /~/, $text;
    $instead =~ s/~/\n/g;
    my $count = () = $code =~ /$pattern/g;
    die "the text is in $ENV{FILE} $count times, not once: $text\n" if $count != 1;
    $code =~ s/$pattern/$instead/;
    print $code;' >"$4"
}
