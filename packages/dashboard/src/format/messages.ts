/** The texts of numbers, dates and the filter sentence. */
export const texts = {
  seconds: (value: string) => `${value} seconds`,
  unchanged: 'no change',
  fromZero: 'new',
  points: (amount: string) => `${amount} points`,
  up: 'up',
  down: 'down',
  weekOf: (date: string) => `Week of ${date}`,
  conditions: {
    from: (countries: string) => `from ${countries}`,
    notFrom: (countries: string) => `not from ${countries}`,
    where: (condition: string) => `where ${condition}`,
  },
  compared: {
    with: (range: string) => `against ${range}`,
    weekdays: 'against the same weekdays a year before',
    ranges: {
      today: 'against yesterday until the same time',
      yesterday: 'against the day before',
      '7d': 'against the 7 before',
      '28d': 'against the 28 before',
      '91d': 'against the 91 before',
      month: 'against the same days of the month before',
      last_month: 'against the month before',
      year: 'against the same days of the year before',
      '12mo': 'against the 12 before',
    } as Partial<Record<string, string>>,
  },
}
