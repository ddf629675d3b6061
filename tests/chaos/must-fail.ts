// npm run chaos:must-fail [chaos|tests]: shows that each of the bugs in mutations.ts is detected. Each is put into a
// copy of the last commit; the chaos run or the test file that must detect it has to fail, and for the right reason.
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
function make({ name, edits }: Pick<Mutation, 'name' | 'edits'>): () => void {
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

function runChaos(args: readonly string[]): Figures {
  const { stdout, status } = spawnSync(
    process.execPath,
    ['--disable-warning=TimeoutNegativeWarning', 'tests/chaos/main.ts', 'exactly-once', '--events', '20000', ...args],
    { cwd: copy, stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8', maxBuffer: 2 ** 26 },
  )
  if (!stdout.startsWith('{')) throw new Error(`the run ended with ${status ?? 'a signal'} and without figures`)
  const { passed, lost, twice, altered } = JSON.parse(stdout) as Figures
  return { passed, lost, twice, altered }
}

/** Runs test files; a file that could not run, or a test that was left out, is an error. */
function runTests(files: readonly string[]): { passed: number; failed: number } {
  const report = join(copy, 'must-fail.json')
  rmSync(report, { force: true })
  const options = ['--json', `--outputFile=${report}`, '--testTimeout=60000']
  spawnSync('npm', ['test', '--silent', '--', ...options, ...files], { cwd: copy, stdio: 'ignore' })
  const counts = JSON.parse(readFileSync(report, 'utf8')) as Record<string, number>
  if (
    counts.numTotalTestSuites !== files.length ||
    counts.numRuntimeErrorTestSuites !== 0 ||
    counts.numPendingTests !== 0
  )
    throw new Error(`not all tests of ${files.join(', ')} could run: ${JSON.stringify(counts)}`)
  return { passed: counts.numPassedTests ?? 0, failed: counts.numFailedTests ?? 0 }
}

function report(mistake: string, isAsExpected: boolean, figures: object): void {
  console.log(JSON.stringify({ mistake, as_expected: isAsExpected, ...figures }))
  if (!isAsExpected) process.exitCode = 1
}

const byChaos = mutations.flatMap(({ detectedBy, ...rest }) =>
  'faults' in detectedBy ? [{ ...rest, ...detectedBy }] : [],
)
const byTests = mutations.flatMap(({ detectedBy, ...rest }) =>
  'faults' in detectedBy ? [] : [{ ...rest, ...detectedBy }],
)

function checkChaosRuns(): void {
  const sound = runChaos(['--faults', [...new Set(byChaos.map(({ faults }) => faults))].join(',')])
  report('none', sound.passed, sound)
  for (const { faults, shows, ...mutation } of byChaos) {
    const undo = make(mutation)
    const figures = runChaos(['--faults', faults])
    undo()
    report(mutation.name, !figures.passed && figures[shows] > 0, figures)
  }
}

function checkTests(): void {
  const sound = runTests([...new Set(byTests.map(({ testFile }) => testFile))])
  report('none', sound.failed === 0, sound)
  for (const { testFile, ...mutation } of byTests) {
    const undo = make(mutation)
    const counts = runTests([testFile])
    undo()
    report(mutation.name, counts.failed > 0, counts)
  }
}

try {
  makeCopy()
  const only = process.argv[2]
  if (only !== 'tests') checkChaosRuns()
  if (only !== 'chaos') checkTests()
} finally {
  rmSync(copy, { recursive: true, force: true })
}
