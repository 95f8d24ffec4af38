// Whether MPI takes memory of a GPU for a buffer: known at run time only.
#pragma once

namespace headrace {

bool mpi_is_cuda_aware();

}  // namespace headrace
