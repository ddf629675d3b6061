/** Rows from which on a list has a search. */
const searchedRowsMin = 10

interface ListSearchProps {
  label: string
  /** The rows of the whole list. */
  rows: number
  value: string
  onInput: (value: string) => void
}

/** A field that narrows a list; nothing for a short list that is not narrowed. Within a form, Enter does not submit it. */
export function ListSearch({ label, rows, value, onInput }: ListSearchProps) {
  if (rows < searchedRowsMin && value === '') return null
  return (
    <input
      class="input list-search"
      type="search"
      aria-label={label}
      placeholder={label}
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') event.preventDefault()
      }}
    />
  )
}

/** Whether one of the texts contains what is searched for. */
export const isFound = (search: string, ...texts: readonly string[]): boolean =>
  texts.join(' ').toLowerCase().includes(search.trim().toLowerCase())
