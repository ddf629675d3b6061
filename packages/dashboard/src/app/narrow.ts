import { signal } from '@preact/signals'

const query = matchMedia('(max-width: 899px)')

/** Whether the window is too narrow for the rail and the whole bar. */
export const isNarrow = signal(query.matches)

query.addEventListener('change', () => {
  isNarrow.value = query.matches
})
