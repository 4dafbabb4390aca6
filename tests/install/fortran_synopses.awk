# Makes a Fortran module of what a manual page says under "Fortran 2008": it compiles where the page and the module
# lanyard_f08 say the same. Nothing is printed for a page that says nothing there.
#
#   awk -f fortran_synopses.awk PAGE
#
# Each procedure of the page is called by the names of its arguments, with ierror and without; and a pointer of exactly
# its interface is let point to it. No pointer can point to a generic name: of what that stands for there is a comment
# "! generic: ", with its arguments and their declarations, for whoever compares it with the module's text.

function add(line) { body = body line "\n" }

function name_in(heading) {
  sub(/^ *(subroutine|integer function) */, "", heading)
  sub(/\(.*/, "", heading)
  return heading
}

# What the page says of a procedure becomes one of ours, which calls the one that is meant.
function end_procedure(    ours, call, short, i, is_function) {
  if (procedure == "") return
  is_function = heading ~ /function/
  ours = "call_" ++procedures
  for (i = 1; i <= argument_count; ++i) {
    call = call (call == "" ? "" : ", ") arguments[i] "=" arguments[i]
    if (arguments[i] != "ierror") short = short (short == "" ? "" : ", ") arguments[i] "=" arguments[i]
  }
  sub(procedure, ours, heading)
  add("  " heading)
  add(declarations "    " (is_function ? ours " = " : "call ") procedure "(" call ")")
  if (short != call) add("    call " procedure "(" short ")")
  add(is_function ? "  end function" : "  end subroutine")
  gsub(/\n/, "|", declarations)
  stated[procedure] = stated[procedure] "! generic: (" list ")|" declarations "\n"
  ++forms[procedure]
  our_name[procedure] = ours
  procedure = ""
}

/^\.S[HS]/ { in_fortran = /^\.SS Fortran 2008$/; in_synopsis = 0; next }
in_fortran && /^\.nf/ { in_synopsis = 1; next }
/^\.fi/ { in_synopsis = 0; next }
!in_fortran || !in_synopsis { next }

# From here on these are lines of Fortran.
{ gsub(/\\f[BIPR]|\\%|\\&/, ""); gsub(/\\-/, "-") }
# Of a line that goes on: the whole.
sub(/&$/, "") { begun = begun $0; next }
begun != "" { sub(/^ +/, ""); $0 = begun $0; begun = "" }
/^\.PP/ || /^$/ { end_procedure(); next }
/^use[ ,]/ { uses = uses "  " $0 "\n"; next }
/^abstract interface/ { in_interface = 1; next }
/^end interface/ { in_interface = 0; next }

# Of procedures that users write: one is written.
in_interface && / end subroutine/ { own[own_name] = own[own_name] "  end subroutine\n"; next }
in_interface && /^ *subroutine / {
  own_name = name_in($0)
  sub(own_name, "own_" own_name)
}
in_interface { own[own_name] = own[own_name] $0 "\n"; next }

/^(subroutine|integer function) / {
  end_procedure()
  heading = $0
  procedure = name_in($0)
  list = $0
  sub(/^[^(]*\(/, "", list)
  sub(/\).*/, "", list)
  argument_count = split(list, arguments, / *, */)
  declarations = ""
  next
}
/^ +.*::/ { declarations = declarations "  " $0 "\n"; next }

/^integer, parameter :: [A-Za-z_]+ = [0-9]+$/ {
  constants = constants "  integer, parameter :: check_" ++checks " = 1 / merge(1, 0, " $4 " == " $6 ")\n"
  next
}
/^type\([A-Za-z_]+\), parameter :: [A-Za-z_]+$/ {
  constants = constants "  " $1 " parameter :: check_" ++checks " = " $4 "\n"
  next
}
{ print "fortran_synopses.awk: what is this: " $0 >"/dev/stderr"; failed = 1 }

END {
  end_procedure()
  if (failed) exit 1
  if (uses == "") exit 0
  printf "module synopses\n%s  implicit none\n%scontains\n%s", uses, constants, body
  for (name in own) {
    printf "%s", own[name]
    printf "  subroutine point_to_own_%s()\n    procedure(%s), pointer :: as_stated\n", name, name
    printf "    type(c_funptr) :: address\n    as_stated => own_%s\n", name
    printf "    address = c_funloc(own_%s)\n  end subroutine\n", name  # of a procedure with bind(C) only
  }
  for (name in forms) {
    if (forms[name] > 1) {
      printf "%s", stated[name]
      continue
    }
    printf "  subroutine point_to_%s()\n    procedure(%s), pointer :: as_stated\n", name, our_name[name]
    printf "    as_stated => %s\n  end subroutine\n", name
  }
  print "end module synopses"
}
