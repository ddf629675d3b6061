// npm run chaos:must-fail: shows that the scenarios detect each of the bugs in mutations.ts. Each bug is put into a copy of
// the last commit; the run that must detect it has to fail, and for the right reason.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Mutation, mutations } from './mutations.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'sluice-must-fail-'))

interface Figures {
  passed: boolean
  lost: number
  twice: number
  altered: number
}

function makeCopy(): void {
  execFileSync('git', ['clone', '--quiet', root, copy])
  const cache = join(root, '.cache')
  // The jars of Kafka are shared, because Maven would fetch them again otherwise.
  if (existsSync(cache)) cpSync(cache, join(copy, '.cache'), { recursive: true })
  execFileSync('npm', ['run', '--silent', 'setup'], { cwd: copy, stdio: 'inherit' })
}

/** Puts the bug into the product; returns a function that removes it. */
function make({ name, edits }: Mutation): () => void {
  const originals = edits.map(({ file, from, to }) => {
    const path = join(copy, file)
    const text = readFileSync(path, 'utf8')
    if (text.split(from).length !== 2)
      throw new Error(`${name}: ${file} must hold exactly once, so that it can be replaced:\n${from}`)
    writeFileSync(
      path,
      text.replace(from, () => to),
    )
    return { path, text }
  })
  return () => {
    for (const { path, text } of originals.reverse()) writeFileSync(path, text)
  }
}

function run(args: readonly string[]): Figures {
  const { stdout, status } = spawnSync(
    process.execPath,
    ['--disable-warning=TimeoutNegativeWarning', 'tests/chaos/main.ts', 'exactly-once', '--events', '20000', ...args],
    { cwd: copy, stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8', maxBuffer: 2 ** 26 },
  )
  if (!stdout.startsWith('{')) throw new Error(`the run ended with ${status ?? 'a signal'} and without figures`)
  return JSON.parse(stdout) as Figures
}

try {
  makeCopy()
  const allFaults = [...new Set(mutations.map(({ faults }) => faults))].join(',')
  const sound = run(['--faults', allFaults])
  if (!sound.passed) throw new Error('the run fails without any mistake made')
  console.log(JSON.stringify({ mistake: 'none', ...pick(sound) }))

  for (const mistake of mutations) {
    const undo = make(mistake)
    const figures = run(['--faults', mistake.faults])
    undo()
    const isSeen = !figures.passed && figures[mistake.shows] > 0
    console.log(JSON.stringify({ mistake: mistake.name, is_seen: isSeen, ...pick(figures) }))
    if (!isSeen) {
      console.error(`${mistake.name}: ${mistake.shows} events were expected`)
      process.exitCode = 1
    }
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}

function pick({ passed, lost, twice, altered }: Figures): Figures {
  return { passed, lost, twice, altered }
}
