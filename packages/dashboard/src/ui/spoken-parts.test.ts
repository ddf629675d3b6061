import { expect, test } from '@jest/globals'
import { type SpokenPart, withPart } from './spoken-parts.ts'

/** What is said after each announcement. */
function saidAfter(announcements: [at: number, text: string, topic?: string][]): string[] {
  let parts: SpokenPart[] = []
  return announcements.map(([at, text, topic]) => {
    parts = withPart(parts, { text, topic, at })
    return parts.map((part) => part.text).join(' ')
  })
}

test('a text is said after the one just before it, and in place of an older one', () => {
  expect(
    saidAfter([
      [0, 'Deleted'],
      [100, 'Sites', 'title'],
      [300, 'Live', 'title'],
    ]),
  ).toEqual(['Deleted', 'Deleted Sites', 'Live'])
})

test('a text of the same topic replaces the one before', () => {
  expect(
    saidAfter([
      [0, '12 Jan: 5', 'point'],
      [30, '13 Jan: 7', 'point'],
    ]),
  ).toEqual(['12 Jan: 5', '13 Jan: 7'])
})

test('a text that comes between the points of a chart is not said again with each of them', () => {
  const points = [40, 80, 120, 160, 200].map((at): [number, string, string] => [at, `point at ${at}`, 'point'])
  expect(saidAfter([[0, 'It would have fired'], ...points]).at(-1)).toBe('point at 200')
})
