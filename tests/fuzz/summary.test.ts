import { describe, expect, it } from '@jest/globals'
import type { Round } from './schemathesis.ts'
import { summary } from './summary.ts'

const round: Round = { exitCode: 0, answers: { 'GET /a': { 200: 6, 400: 1 }, 'PUT /b': { 400: 3 } }, unanswered: {} }
const expected = { cases: 10, labels: ['GET /a', 'PUT /b'] }

describe('the summary of a fuzz run', () => {
  it('adds up the answers of all rounds', () => {
    const { lines, problems } = summary([round, { ...round, answers: { 'GET /a': { 200: 1, 404: 2 } } }], expected)
    expect(problems).toEqual([])
    expect(lines.map((line) => line.trim())).toEqual([
      '10  GET /a: 200 × 7, 400 × 1, 404 × 2',
      '3  PUT /b: 400 × 3',
      '13  all: 200 × 7, 400 × 4, 404 × 2',
    ])
  })

  it.each<[string, Partial<Round>, RegExp]>([
    ['a failed check', { exitCode: 1 }, /what is told above/],
    ['a fuzzer that was killed', { exitCode: 'SIGTERM' }, /what is told above/],
    ['a 500', { answers: { ...round.answers, 'GET /a': { 200: 6, 500: 1 } } }, /^1 answers of 500/],
    ['a 503, though it is documented', { answers: { ...round.answers, 'GET /a': { 503: 7 } } }, /^7 answers of 500/],
    ['a request without an answer', { unanswered: { 'GET /a': 1 } }, /^1 requests without/],
    ['an operation that was not met', { answers: { 'GET /a': { 200: 10 } } }, /^no case for PUT \/b$/],
    ['too few cases', { answers: { ...round.answers, 'PUT /b': { 400: 2 } } }, /^only 9 of 10/],
  ])('%s is a problem', (_, part, problem) => {
    expect(summary([{ ...round, ...part }], expected).problems).toEqual([expect.stringMatching(problem)])
  })
})
