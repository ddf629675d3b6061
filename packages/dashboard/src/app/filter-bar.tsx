import { useState } from 'preact/hooks'
import type { Condition } from '@sluice/contracts/conditions'
import { conditionLabel } from '../format/sentences.ts'
import { messages } from '../messages/en.ts'
import { useView } from '../state/hooks.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { FilterDialog } from './filter-dialog.tsx'
import { useShortcut } from './shortcuts.tsx'

/** The filters as chips, each to be edited or removed, and a button that adds one. */
export function FilterBar() {
  const { filters, setView } = useView()
  const [edited, setEdited] = useState<number>()
  const set = (next: Condition[]) => {
    setView({ filters: next })
  }
  useShortcut('/', messages.shortcuts.filter, () => setEdited(filters.length))
  useShortcut('Escape', messages.shortcuts.dropFilter, () => {
    if (filters.length > 0) set(filters.slice(0, -1))
  })
  return (
    <>
      <Button kind="quiet" icon="list-filter" title={messages.bar.addFilter} onClick={() => setEdited(filters.length)}>
        {messages.bar.filter}
      </Button>
      {filters.length === 0 ? null : (
        <div class="chips">
          {filters.map((each, at) => {
            const text = conditionLabel(each)
            return (
              <span class="chip" key={at}>
                <button
                  type="button"
                  class="chip-text"
                  aria-label={messages.filters.edit(text)}
                  title={text}
                  onClick={() => setEdited(at)}
                >
                  <bdi class="truncate">{text}</bdi>
                </button>
                <button
                  type="button"
                  class="chip-remove"
                  aria-label={messages.filters.remove(text)}
                  onClick={() => set(filters.filter((_, other) => other !== at))}
                >
                  <Icon name="x" size={14} />
                </button>
              </span>
            )
          })}
        </div>
      )}
      {edited === undefined ? null : (
        <FilterDialog
          condition={filters[edited]}
          onClose={() => setEdited(undefined)}
          onApply={(condition) => {
            setEdited(undefined)
            set(
              filters[edited] === undefined
                ? [...filters, condition]
                : filters.map((each, at) => (at === edited ? condition : each)),
            )
          }}
          onRemove={() => {
            setEdited(undefined)
            set(filters.filter((_, at) => at !== edited))
          }}
        />
      )}
    </>
  )
}
