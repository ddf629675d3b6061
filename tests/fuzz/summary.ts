import type { Round } from './schemathesis.ts'

export function casesOf(rounds: readonly Pick<Round, 'answers'>[]): number {
  return sum(rounds.flatMap(({ answers }) => Object.values(answers).flatMap((statuses) => Object.values(statuses))))
}

/** Summarises all rounds as lines and problems; `labels` are the operations that must have been called. */
export function summary(
  rounds: readonly Round[],
  { cases, labels }: { cases: number; labels: readonly string[] },
): { lines: string[]; problems: string[] } {
  const met = new Set(rounds.flatMap(({ answers }) => Object.keys(answers)))
  const statusesOf = (label: string) => added(rounds.map(({ answers }) => answers[label] ?? {}))
  const statuses = added(rounds.flatMap(({ answers }) => Object.values(answers)))
  const total = casesOf(rounds)
  const serverErrors = sum([...statuses].filter(([status]) => Number(status) >= 500).map(([, count]) => count))
  const unanswered = sum(rounds.flatMap((round) => Object.values(round.unanswered)))
  const untouched = labels.filter((label) => !met.has(label))
  const problems = [
    total < cases && `only ${total} of ${cases} cases came about`,
    untouched.length > 0 && `no case for ${untouched.join(', ')}`,
    serverErrors > 0 && `${serverErrors} answers of 500 and above`,
    unanswered > 0 && `${unanswered} requests without an answer`,
    rounds.some(({ exitCode }) => exitCode !== 0) && 'what is told above, with its curl commands',
  ]
  return {
    lines: [...[...met].map((label) => line(label, statusesOf(label))), line('all', statuses)],
    problems: problems.filter((problem) => problem !== false),
  }
}

/** Formats one line of the summary, e.g. `      11  GET /a: 200 × 10, 404 × 1`. */
function line(name: string, statuses: ReadonlyMap<string, number>): string {
  const counts = [...statuses].sort().map(([status, count]) => `${status} × ${count}`)
  return `${String(sum([...statuses.values()])).padStart(8)}  ${name}: ${counts.join(', ')}`
}

function added(counts: readonly Readonly<Record<string, number>>[]): Map<string, number> {
  const total = new Map<string, number>()
  for (const [name, count] of counts.flatMap((each) => Object.entries(each))) {
    total.set(name, (total.get(name) ?? 0) + count)
  }
  return total
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
