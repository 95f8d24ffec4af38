// Every MPI call goes through HR_MPI: a failure is an exception with the call, MPI's own text and
// the place.
#pragma once

#include <mpi.h>

namespace headrace {

/// Throws std::runtime_error where code is not MPI_SUCCESS.
void check_mpi(int code, const char* call, const char* file, int line);

}  // namespace headrace

#define HR_MPI(call) ::headrace::check_mpi((call), #call, __FILE__, __LINE__)
