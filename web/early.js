/*
 * early.js - what must be known before anything is drawn.
 *
 * Light or dark: without a choice of the reader's it is what the system prefers; the choice is kept
 * in this browser. And whether the headline that the page comes with is for the address: it is that
 * of the overview of the server's own namespace.
 */
(function () {
    'use strict';
    var root = document.documentElement;
    if (location.hash !== '' && location.hash !== '#/') {
        root.setAttribute('data-elsewhere', '');
    }
    try {
        var chosen = localStorage.getItem('holdfast-theme');
        if (chosen === 'light' || chosen === 'dark') {
            root.setAttribute('data-theme', chosen);
        }
    } catch (error) {
        /* A browser that keeps nothing has the system's. */
    }
})();
