import { expect, it } from '@jest/globals'
import { formatSteps, parseSteps, type Step, suggestedSteps } from './steps.ts'

it('steps come back from the address as they were', () => {
  const steps: Step[] = [
    { event_type: 'page_view', conditions: [] },
    {
      event_type: String.raw`a>b;c\d:e`,
      conditions: [
        { property: 'country', operator: 'in', value: ['DE', 'F,R'] },
        { property: 'properties.a:b', operator: 'equals', value: String.raw`x;y>z\ ` },
        { property: 'user_id', operator: 'exists' },
      ],
    },
  ]
  expect(parseSteps(formatSteps(steps))).toEqual(steps)
  expect(formatSteps([steps[0], { event_type: 'purchase', conditions: [] }] as Step[])).toBe('page_view>purchase')
})

it('a text that is not a funnel is refused', () => {
  for (const text of ['', 'page_view', 'a>', 'a>b;nonsense', Array.from({ length: 9 }, () => 'a').join('>')]) {
    expect(parseSteps(text)).toBeUndefined()
  }
})

it('the most frequent types are suggested, and a single type is followed by itself', () => {
  const types = (names: string[]) => suggestedSteps(names).map(({ event_type }) => event_type)
  expect(types(['a', 'b', 'c', 'd'])).toEqual(['a', 'b', 'c'])
  expect(types(['a'])).toEqual(['a', 'a'])
  expect(types([])).toEqual([])
})
