// What Linux says of this process, and takes from it.
#pragma once

namespace starling::peers {

/// What is opened first must not get the number of stdout, and what is printed with it.
void open_missing_streams();

/// From now on the program ends with a word on why where a mapped file has no bytes any more: it
/// became shorter, or its disk fails.
void take_bus_errors();

/// Seconds since this process was started, counted by the kernel in hundredths.
[[nodiscard]] double process_age();

/// As many open files as the system lets this process have: a peer has some for each link and for
/// each client of its page.
void allow_open_files();

/// A thousand peers each hold records of all: looking up their pages of 4 KiB takes a third of the
/// time. The heap grows by 1 GiB at once, of which is taken what is touched. Where the system has
/// no larger pages, nothing changes.
void use_huge_pages();

}  // namespace starling::peers
