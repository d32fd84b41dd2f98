#!/bin/bash
# A job of Slurm that trains one model in as many processes as it has tasks, which Open MPI brings together:
#   sbatch -N 2 -n 4 docs/example/slurm_mpi.sh m.onnx --data train.npz --loss cross-entropy --out run
# What follows the script is dpexec's.  MPICH's way is --mpi=pmi2 of srun, and --mpi mpich.
# A minute before its time is over, and when it is cancelled, the job writes a checkpoint; with --resume run the next goes on.
#SBATCH --job-name=dpexec --ntasks-per-node=2 --signal=TERM@60
srun --mpi=pmix dpexec train --mpi openmpi "$@"
