# Open MPI on one machine: what lets root start ranks in a container, lets ranks outnumber cores, and keeps
# Open MPI from binding a rank, with all its threads, to one core. Sourced before mpirun; other MPIs ignore it.
# shellcheck shell=bash
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none

# yield_when_idle RANKS THREADS: waiting ranks give way where there are more threads than cores.
yield_when_idle() {
  if [ $(($1 * $2)) -gt "$(nproc)" ]; then
    export OMPI_MCA_mpi_yield_when_idle=1
  else
    unset OMPI_MCA_mpi_yield_when_idle
  fi
}
