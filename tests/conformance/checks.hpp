// The requirements for every backend, one function per claim; each compiles the case on the device.
#pragma once

#include <string>

#include "cases.hpp"

namespace starling::conformance {

/// Loss, buffers and gradient of training are those of the plain network in double precision, the
/// gradient by central differences.
void matches_finite_differences(const std::string& device, const Case& item);

/// Outputs and loss of evaluation, loss, gradient and buffers of training are PyTorch's.
void matches_pytorch(const std::string& device, const Case& item);

/// Fewer samples than the compiled number give the same results as a program compiled for them.
void short_batch_is_a_batch_of_its_own(const std::string& device, const Case& item);

/// A program gives the same bits again after any other work, and so does another program.
void same_bits_twice(const std::string& device, const Case& item);

/// Two threads compute the same as one.
void two_threads_agree(const std::string& device, const Case& item);

/// The losses of a run are PyTorch's; twice the run is the same bits. For run_cases.
void run_matches_pytorch(const std::string& device, const Case& item);

/// The following is for devices with their own memory.
/// Steps of a replica that lives on the device leave what steps of one in the processor's memory
/// do: parameters, the update rule's state, losses. For run_cases.
void resident_steps_are_those_of_the_host(const std::string& device, const Case& item);
/// Where loss or gradient are not finite, a step there is the host's error, and leaves the replica
/// and the rule's state as they were, of which the next step is the host's.
void what_is_not_finite_is_not_applied(const std::string& device);
/// Outputs and evaluations of parameters that were taken there once. For run_cases.
void resident_outputs_are_those_of_the_program(const std::string& device, const Case& item);
/// Exchanges of a replica there, of every kind, write and leave the same bits as here.
void replica_has_the_same_bits(const std::string& device);
void replica_opens_in_every_way(const std::string& device);
/// Deltas are made and taken there as here, of any difference and from any bytes.
void deltas_are_those_of_the_host(const std::string& device);
void deltas_of_large_replicas_are_those_of_the_host(const std::string& device);
void what_is_not_finite_is_told_as_by_the_host(const std::string& device);
void indices_end_where_the_replica_does(const std::string& device);
void deltas_with_wrong_bits_are_judged_as_by_the_host(const std::string& device);

/// The plain network agrees with PyTorch: shows whose fault it is when a backend does not.
void reference_matches_pytorch(const Case& item);

}  // namespace starling::conformance
