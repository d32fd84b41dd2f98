#!/bin/bash
# A job of Slurm that trains one model in as many processes as it has tasks, without MPI: they meet on the job's first node.
#   sbatch -N 2 -n 4 docs/example/slurm_tcp.sh m.onnx --data train.npz --loss cross-entropy --out run
# What follows the script is dpexec's.  The secret lies in the folder from which the job was submitted, which all nodes have.
#SBATCH --job-name=dpexec --ntasks-per-node=2 --signal=TERM@60
umask 077
secret=$SLURM_SUBMIT_DIR/.dpexec-$SLURM_JOB_ID
head -c 32 /dev/urandom >"$secret"
trap 'rm -f "$secret"' EXIT
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
srun dpexec train --world-secret "$secret" "$@"
