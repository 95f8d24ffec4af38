// Every MPI call goes through HR_MPI: a failure is an exception with the call, MPI's own text and
// the place.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string_view>

namespace headrace {

/// Throws std::runtime_error where code is not MPI_SUCCESS.
void check_mpi(int code, const char* call, const char* file, int line);

/// Throws std::invalid_argument where `what` ("a message") is more than one MPI call can carry.
void require_one_transfer(std::string_view what, std::size_t bytes);

}  // namespace headrace

#define HR_MPI(call) ::headrace::check_mpi((call), #call, __FILE__, __LINE__)
