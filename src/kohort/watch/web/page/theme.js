// The theme is set before the first paint, so this is a classic script. "auto" follows the system.
"use strict";
(() => {
  const root = document.documentElement;
  const read = () => {
    try {
      return localStorage.getItem("theme") ?? "auto";
    } catch {
      return "auto"; // storage is forbidden: the choice lasts as long as the page
    }
  };
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  apply(read());
  window.kohortTheme = {
    read: () => root.dataset.theme ?? "auto",
    set(theme) {
      apply(theme);
      try {
        localStorage.setItem("theme", theme);
      } catch {
        // as above
      }
      window.dispatchEvent(new Event("themechange"));
    },
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("themechange")));
})();
