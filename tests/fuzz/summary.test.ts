import { describe, expect, it } from '@jest/globals'
import type { Round } from './schemathesis.ts'
import { summary } from './summary.ts'

const round: Round = {
  exitCode: 0,
  statuses: { 200: 6, 400: 4 },
  operations: { 'GET /a': 7, 'PUT /b': 3 },
  unanswered: {},
}
const expected = { cases: 10, labels: ['GET /a', 'PUT /b'] }

describe('the summary of a fuzz run', () => {
  it('adds up what the rounds met', () => {
    const { lines, problems } = summary([round, { ...round, statuses: { 200: 1, 404: 2 } }], expected)
    expect(problems).toEqual([])
    expect(lines.join('\n')).toMatch(
      /13 cases over 2 operations\n +14 {2}GET \/a\n +6 {2}PUT \/b\nTheir statuses\n +7 {2}200\n +4 {2}400\n +2 {2}404/,
    )
  })

  it.each<[string, Partial<Round>, RegExp]>([
    ['a failed check', { exitCode: 1 }, /what is told above/],
    ['a fuzzer that was killed', { exitCode: 'SIGTERM' }, /what is told above/],
    ['a 500', { statuses: { 200: 9, 500: 1 } }, /^1 answers of 500/],
    ['a 503, though it is documented', { statuses: { 200: 8, 503: 2 } }, /^2 answers of 500/],
    ['a request without an answer', { unanswered: { 'GET /a': 1 } }, /^1 requests without/],
    ['an operation that was not met', { operations: { 'GET /a': 10 } }, /^no case for PUT \/b$/],
    ['too few cases', { statuses: { 200: 9 } }, /^only 9 of 10/],
  ])('%s is a problem', (_, part, problem) => {
    expect(summary([{ ...round, ...part }], expected).problems).toEqual([expect.stringMatching(problem)])
  })
})
