// Facts that Linux tells about this process, and settings of the process.
#pragma once

namespace starling::peers {

/// Without this, the first opened file could get the number of stdout, and everything printed.
void open_missing_streams();

/// From now on, if a mapped file has no more bytes, the program ends with a message: the file
/// became shorter, or its disk fails.
void take_bus_errors();

/// Seconds since this process was started, counted by the kernel in hundredths.
[[nodiscard]] double process_age();

/// Raises the limit of open files as far as the system allows: a peer has some for each link and
/// for each client of its page.
void allow_open_files();

/// A thousand peers each hold records of all others: with pages of 4 KiB, page look-ups take a
/// third of the time. The heap grows by 1 GiB at once, but only touched memory is used. If the
/// system has no larger pages, nothing changes.
void use_huge_pages();

}  // namespace starling::peers
