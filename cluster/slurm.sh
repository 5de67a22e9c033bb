#!/bin/bash
# A sweep on Slurm: sbatch cluster/slurm.sh tune_configs/curvature_bottleneck.py --seeds 100
# Two minutes before the time limit the sweep stops in order, and the job is queued again and goes on.
#SBATCH --job-name=raypfrl
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -euo pipefail
# shellcheck source=/dev/null
source .venv/bin/activate # the same environment on every node: the folder is shared

umask 077 # the token is as good as a password
ray get-auth-token --generate > /dev/null
export RAY_AUTH_MODE=token

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname -I | cut -d' ' -f1)
port=$((6000 + SLURM_JOB_ID % 2000)) # several jobs can share a node
export RAY_ADDRESS=$head:$port

start() { # node, what kind
    srun --nodes=1 --ntasks=1 -w "$1" ray start --block --num-cpus="$SLURM_CPUS_PER_TASK" "${@:2}" &
}
start "${nodes[0]}" --head --node-ip-address="$head" --port="$port" --include-dashboard=false
until ray status > /dev/null 2>&1; do sleep 2; done
for node in "${nodes[@]:1}"; do start "$node" --address="$RAY_ADDRESS"; done

raypfrl sweep "$@" --cpus $((SLURM_NNODES * SLURM_CPUS_PER_TASK)) & # waits until all nodes are there
sweep=$!
trap 'kill -TERM "$sweep"' TERM
status=0
wait "$sweep" || status=$?
if kill -0 "$sweep" 2> /dev/null; then # the wait was cut short by the signal
    status=0
    wait "$sweep" || status=$?
fi
[ "$status" -ne 130 ] || scontrol requeue "$SLURM_JOB_ID"
exit "$status"
